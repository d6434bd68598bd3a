"""`hookline serve --headless` as a process."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from hookline_testing.waiting import PATIENCE_SECONDS, wait_until


class HeadlessNode:
    """The engines of another machine.

    Attributes:
        process: The command.
        log: What it writes.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def engine_pids(self) -> list[int]:
        """Process ids of its engines."""
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(each) for each in task.read_text().split()]

    def wait_for_engine(self) -> int:
        """Waits until it has one engine; returns the engine's process id."""
        wait_until(lambda: len(self.engine_pids) == 1, "it has no engine")
        return self.engine_pids[0]

    def end(self, number: int) -> int:
        """Sends it a signal and returns its exit status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@contextmanager
def headless(
    *argv: str,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[HeadlessNode]:
    """Runs `hookline serve --headless` with these arguments; kills it in the end.

    Args:
        argv: The arguments.
        prefix: Command line of a program that runs the command.
        environment: Variables added to this process's environment.
    """
    own = [sys.executable, "-m", "hookline_server", "serve", "--headless", *argv]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with (
            log.open("w") as output,
            subprocess.Popen(  # noqa: S603 - the test names the command
                [*prefix, *own], stdout=output, stderr=output, env=variables
            ) as process,
        ):
            node = HeadlessNode(process, log)
            try:
                yield node
            finally:
                if process.poll() is None:
                    process.kill()
