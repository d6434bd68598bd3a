"""A text process.

It is run as `python -m hookline.text.process FD CPU_SECONDS MEMORY_BYTES OWNER`. FD is
a file with the `Setup`, OWNER the process id of the front end. Standard input is a
socket: jobs come in, replies go out, and the process ends when the front end closes it
or has ended. The kernel ends the process when a job takes more than `CPU_SECONDS` of
processor time, whatever it does, also after the front end is gone.
"""

import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import msgspec

from hookline.text.chat_template import (
    ChatTemplate,
    OutputTooLongError,
    TemplateRefusedError,
)
from hookline.text.encoder import Encoder, TooManyTokensError
from hookline.text.messages import (
    LENGTH_BYTES,
    Answer,
    Encode,
    Encoded,
    Job,
    Ready,
    Render,
    Setup,
    TemplateRefused,
    TooLong,
    frame,
)

OWNER_CHECK_SECONDS = 2.0
RENDER_SECONDS = 2.0
"""Processor time that a chat template may take for one conversation."""


class TextWorker:
    """Does the jobs of one text process."""

    def __init__(self, setup: Setup, cpu_seconds: float) -> None:
        self._encoder = Encoder(setup.tokenizer)
        self._template = (
            None
            if setup.chat_template is None
            else ChatTemplate(setup.chat_template, setup.special_tokens)
        )
        self._cpu_seconds = cpu_seconds

    def do(self, job: Job) -> Answer:
        """Returns the reply to a job; the kernel ends the process at a limit."""
        begun = time.perf_counter()
        try:
            token_ids = self._token_ids(job)
        except (TooManyTokensError, OutputTooLongError):
            return TooLong(time.perf_counter() - begun)
        except TemplateRefusedError as error:
            return TemplateRefused(str(error), time.perf_counter() - begun)
        return Encoded(token_ids, time.perf_counter() - begun)

    def _token_ids(self, job: Job) -> list[bytes]:
        if isinstance(job, Render):
            with processor_time(RENDER_SECONDS):
                text = self._rendered(job)
            job = Encode([text], add_special_tokens=False, max_tokens=job.max_tokens)
        with processor_time(self._cpu_seconds):
            return [
                self._encoder.encode(
                    text,
                    add_special_tokens=job.add_special_tokens,
                    max_tokens=job.max_tokens,
                )
                for text in job.texts
            ]

    def _rendered(self, job: Render) -> str:
        assert self._template is not None  # the front end knows
        return self._template.render(
            job.messages,
            variables=job.variables,
            add_generation_prompt=job.add_generation_prompt,
            max_chars=job.max_chars,
        )


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """Limits the processor time of its body: the kernel ends the process.

    Python does not handle the signal, so that code that never returns to the
    interpreter ends, too.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main(setup_fd: int, cpu_seconds: float, memory_bytes: int, owner: int) -> None:
    """Does jobs until the front end closes the socket, or has ended."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the front end decides when to end
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    _end_with(owner)
    setup = msgspec.msgpack.decode(_whole_file(setup_fd), type=Setup)
    worker = TextWorker(setup, cpu_seconds)
    _limit_memory(memory_bytes)
    decoder = msgspec.msgpack.Decoder(Job)
    with socket.socket(fileno=0) as channel, channel.makefile("rb") as incoming:
        channel.sendall(frame(Ready()))
        while (data := _next_frame(incoming)) is not None:
            channel.sendall(frame(worker.do(decoder.decode(data))))


def _end_with(owner: int) -> None:
    """Ends this process soon after its owner.

    The socket alone would not do: a child that the owner's plugins have forked may hold
    its other end.
    """

    def check(*_: object) -> None:
        if os.getppid() != owner:
            os._exit(0)

    signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, OWNER_CHECK_SECONDS, OWNER_CHECK_SECONDS)


def _whole_file(descriptor: int) -> bytes:
    """Reads a file that other processes share, whose position is not to be moved."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _limit_memory(more_bytes: int) -> None:
    """Limits the address space to what is in use and `more_bytes`."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - quick
        now = int(file.read().split()[0]) * resource.getpagesize()
    _, largest = resource.getrlimit(resource.RLIMIT_AS)
    limit = now + more_bytes
    if largest == resource.RLIM_INFINITY or limit < largest:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _next_frame(incoming: BinaryIO) -> bytes | None:
    head = incoming.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    length = int.from_bytes(head, "little")
    data = incoming.read(length)
    return data if len(data) == length else None


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
