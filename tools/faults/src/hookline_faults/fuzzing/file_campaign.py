"""Fuzzes readers of files and messages, each in a process that is watched."""

import select
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from hookline_processes.python import python_command

SLOW = ("config.json", "safetensors", "tokenizer.json")
"""Targets that load a model for each case."""
QUICK = ("KV file", "recording", "keys file", "options file", "messages")
MOST_SECONDS = 20.0
"""A case that takes longer is a fault."""
_START_SECONDS = 120.0
_MOST_FAULTS = 20


@dataclass(slots=True)
class FileCampaign:
    """The cases of one target.

    Attributes:
        name: Name of the target.
        outcomes: How often cases ended in a way.
        faults: What was wrong, with the number of the case.
    """

    name: str
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def shares(count: int) -> Iterable[tuple[str, int]]:
    """Yields the targets, and how many of so many cases each gets."""
    for name in SLOW:
        yield name, max(5, count // 60)
    for name in QUICK:
        yield name, count // len(QUICK)


def fuzz_files(name: str, count: int, seed: int) -> FileCampaign:
    """Reads this many mutated contents with a target of `file_targets`."""
    made = FileCampaign(name)
    first = 0
    while first < count and len(made.faults) < _MOST_FAULTS:
        last = _run(made, seed, first, count)
        if last < first:  # it does not even start
            break
        first = last + 1
    return made


def _run(made: FileCampaign, seed: int, first: int, count: int) -> int:
    """Runs a process until it ends; returns the last case that it began."""
    arguments = [made.name, str(seed), str(first), str(count)]
    module = "hookline_faults.fuzzing.file_reader"
    number, is_open = first - 1, False
    with subprocess.Popen(  # noqa: S603 - our own module
        python_command("-m", module, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        while True:
            seconds = MOST_SECONDS if number >= first else _START_SECONDS
            if not select.select([process.stdout], [], [], seconds)[0]:
                process.kill()
                return _ended(made, number, f"took more than {seconds:.0f} s")
            word, _, rest = process.stdout.raw.readline().decode().partition(" ")  # type: ignore[attr-defined]
            if word == "case":
                number, is_open = int(rest), True
            elif word:
                is_open = False
                _count(made, number, word.strip(), rest.strip())
            elif is_open or number < count - 1:
                return _ended(made, number, f"the process ended: {process.wait()}")
            else:
                return number


def _count(made: FileCampaign, number: int, word: str, rest: str) -> None:
    made.outcomes[f"{word} {rest}".strip() if word == "error" else word] += 1
    if word == "fault":
        made.faults.append(f"{made.name} {number}: {rest}")


def _ended(made: FileCampaign, number: int, what: str) -> int:
    made.outcomes["fault"] += 1
    made.faults.append(f"{made.name} {number}: {what}")
    return number
