"""A text process: `python -m hookline_server.texts.process FD SECONDS BYTES`.

FD is a file with the `Setup`. Jobs come from the front end that owns the process, and
replies go there. The kernel ends the process when a job takes more than SECONDS of
processor time, whatever it does, also after the front end is gone, and refuses memory
beyond BYTES.
"""

import sys
import time
from collections.abc import Sequence

import msgspec

from hookline_processes.limits import (
    limit_memory,
    processor_time,
    whole_file,
)
from hookline_processes.owner import Owner, run_supervised
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
        self._templates = TemplateCache(setup.templates, setup.special_tokens)
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
        return self._templates.get(
            job.chat_template, has_tools=bool(job.variables.get("tools"))
        ).render(
            job.messages,
            variables=job.variables,
            add_generation_prompt=job.add_generation_prompt,
            continue_final_message=job.continue_final_message,
            max_chars=job.max_chars,
        )


def main(owner: Owner, arguments: Sequence[str]) -> int:
    """Does jobs until the front end hangs up, or has ended."""
    owner.watch()
    setup_fd, cpu_seconds, memory_bytes = arguments
    setup = msgspec.msgpack.decode(whole_file(int(setup_fd)), type=Setup)
    worker = TextWorker(setup, float(cpu_seconds))
    limit_memory(int(memory_bytes))
    decoder, encode = msgspec.msgpack.Decoder(Job), msgspec.msgpack.Encoder().encode
    owner.send_bytes(encode(Ready()))
    while (data := owner.receive_bytes()) is not None:
        owner.send_bytes(encode(worker.do(decoder.decode(data))))
    return 0


if __name__ == "__main__":
    sys.exit(run_supervised(main))
