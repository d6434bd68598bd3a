"""Reads mutated contents in a separate process, which a reader might end or hang.

`python -m hookline_faults.fuzzing.file_reader TARGET SEED FIRST COUNT` writes the
number of each case before it is read, and what went wrong.
"""

import random
import resource
import sys
import tempfile
import traceback
from pathlib import Path

from hookline_faults.fuzzing.file_targets import make_target
from hookline_registry import Failure, isolate

MEMORY_BYTES = 6 << 30


def main(name: str, seed: int, first: int, count: int) -> None:
    """Reads cases `first` to `count`."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with tempfile.TemporaryDirectory() as folder:
        target = make_target(name, Path(folder))
        for content in target.right:
            target.read(content)  # or nothing of what follows would mean anything
        for number in range(first, count):
            source = random.Random(seed * 1_000_003 + number)  # noqa: S311 - repeatable
            content = target.mutate(source.choice(target.right), source)
            _write(f"case {number}")
            outcome = isolate(target.read, content)
            if not isinstance(outcome, Failure):
                _write("read")
            elif isinstance(outcome.error, target.errors):
                _write(f"error {type(outcome.error).__name__}")
            else:
                _write(f"fault {_last_lines(outcome.error)}")


def _last_lines(error: BaseException) -> str:
    lines = "".join(traceback.format_exception(error)).split("\n")
    return " / ".join(lines[-6:])


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
