"""All loggers and the viewers of a server whose cost is measured."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def loggers() -> Iterator[list[str]]:
    """Yields the options of a server that give it all loggers that it lacks.

    Every request is traced, to a receiver that runs meanwhile.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        _helper("trace_receiver.py") as told,
    ):
        yield [
            *("--stat-logger", "live", "--stat-logger", "request_log"),
            *("--stat-logger-option", f"request_log.path={folder}/requests.jsonl"),
            *("--stat-logger-option", "otel.protocol=http/protobuf"),
            *("--otlp-traces-endpoint", f"http://127.0.0.1:{told}"),
        ]


@contextmanager
def viewers(port: int, count: int) -> Iterator[None]:
    """Has viewers of the server's live view, who have seen a frame."""
    with _helper("viewers.py", str(port), str(count)):
        yield


@contextmanager
def _helper(script: str, *argv: str) -> Iterator[str]:
    """Runs a script of this folder, and yields the line that it prints first."""
    command = [sys.executable, "-P", str(Path(__file__).with_name(script)), *argv]
    with subprocess.Popen(  # noqa: S603 - our own scripts
        command, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            told = process.stdout.readline().strip()
            if not told:
                raise RuntimeError(f"{script} has ended")
            yield told
        finally:
            process.terminate()
