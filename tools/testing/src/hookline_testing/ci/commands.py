"""Commands whose output is kept, and that end in any case.

They write to a file: a pipe would stay open as long as any process that they leave.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Self

LIMIT_SECONDS = 3600.0
"""After which a command is killed, with all processes of its group."""
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command came to.

    Attributes:
        status: Its exit status, negative for a signal.
        output: What it wrote, to both of its outputs.
    """

    status: int
    output: str


class Command:
    """A running command; leaving the `with` statement ends it."""

    def __init__(self, words: Sequence[str]) -> None:
        """Starts it in a process group of its own, without any input."""
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - see `__exit__`
        self._process = subprocess.Popen(  # noqa: S603 - no input of anyone else
            words,
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            process_group=0,
        )

    def __enter__(self) -> Self:
        """Returns the command."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what is left of its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._file.close()

    def outcome(
        self,
        show: Callable[[str], object] = lambda _: None,
        *,
        limit_seconds: float = LIMIT_SECONDS,
    ) -> Outcome:
        """Waits for its end, or kills it at the limit.

        Args:
            show: Told what the command writes, as soon as it does.
            limit_seconds: From now on.
        """
        shown, deadline = 0, time.monotonic() + limit_seconds
        while True:
            status = self._process.poll()
            text = self._written(shown)
            show(text.decode(errors="replace"))
            shown += len(text)
            if status is not None:
                return Outcome(status, self._written(0).decode(errors="replace"))
            if time.monotonic() > deadline:
                os.killpg(self._process.pid, signal.SIGKILL)
            time.sleep(_LOOK_SECONDS)

    def _written(self, start: int) -> bytes:
        size = os.fstat(self._file.fileno()).st_size
        return os.pread(self._file.fileno(), size - start, start)


def say(text: str) -> None:
    """Writes to the terminal at once."""
    sys.stdout.write(text)
    sys.stdout.flush()
