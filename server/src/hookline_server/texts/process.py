"""A text process.

It is run as
`python -m hookline_server.texts.process FD CPU_SECONDS MEMORY_BYTES OWNER`. FD is a
file with the `Setup`, OWNER the process id of the front end. Standard input is a
socket: jobs come in, replies go out, and the process ends when the front end closes it
or has ended. The kernel ends the process when a job takes more than `CPU_SECONDS` of
processor time, whatever it does, also after the front end is gone.
"""

import socket
import sys
import time

import msgspec

from hookline_processes.limits import (
    end_with_owner,
    frame,
    limit_memory,
    next_frame,
    processor_time,
    whole_file,
)
from hookline_server.texts.chat_template import (
    OutputTooLongError,
    TemplateRefusedError,
)
from hookline_server.texts.encoder import Encoder, TooManyTokensError
from hookline_server.texts.messages import (
    Answer,
    Encode,
    Encoded,
    Job,
    Ready,
    Render,
    Setup,
    TemplateRefused,
    TooLong,
)
from hookline_server.texts.template_cache import TemplateCache

RENDER_SECONDS = 2.0
"""Processor time that a chat template may take for one conversation."""


class TextWorker:
    """Does the jobs of one text process."""

    def __init__(self, setup: Setup, cpu_seconds: float) -> None:
        self._encoder = Encoder(setup.tokenizer)
        self._templates = TemplateCache(setup.chat_template, setup.special_tokens)
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
        return self._templates.get(job.chat_template).render(
            job.messages,
            variables=job.variables,
            add_generation_prompt=job.add_generation_prompt,
            continue_final_message=job.continue_final_message,
            max_chars=job.max_chars,
        )


def main(setup_fd: int, cpu_seconds: float, memory_bytes: int, owner: int) -> None:
    """Does jobs until the front end closes the socket, or has ended."""
    end_with_owner(owner)
    setup = msgspec.msgpack.decode(whole_file(setup_fd), type=Setup)
    worker = TextWorker(setup, cpu_seconds)
    limit_memory(memory_bytes)
    decoder = msgspec.msgpack.Decoder(Job)
    with socket.socket(fileno=0) as channel, channel.makefile("rb") as incoming:
        channel.sendall(frame(Ready()))
        while (data := next_frame(incoming)) is not None:
            channel.sendall(frame(worker.do(decoder.decode(data))))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
