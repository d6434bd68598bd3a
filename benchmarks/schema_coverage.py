"""Counts which JSON schemas compile, in Hookline and in the unmodified libraries.

usage: python benchmarks/schema_coverage.py [--schemas DIR] [--most 20] [--model demo]
                                            [--only CATEGORY …]

Reads the schemas in a folder, such as a checkout of JSONSchemaBench (maskbench/data
has values with each schema), or makes its own in ten categories. Hookline is
`backend: auto` with its checks, its trial and a server's limits; it compiles in a
process of its own, as in a server. The libraries compile without any checks;
what they allow and the schema does not is found by the values of the folder's files,
and by a few random outputs, so that "wrong" is a lower bound. `jsonschema` is the
judge; formats are not judged. The libraries and the judge have three seconds of
processor time for a schema each.

Prints a row per category: schemas, and for each side the share that compiles, the
number of those that are wrong, and the median time.
"""

import argparse
import os
import pickle
import signal
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from coverage_schemas import Case, every, made, read
from coverage_sides import Sides, Verdict, context_of

from hookline.model_description import find_folder

SIDES = ("hookline", "xgrammar", "llguidance")
COMPILE_SECONDS = 3.0
JUDGE_SECONDS = 3.0

Job = tuple[str, str, Case]
"""Category, side and schema."""


def verdicts(sides: Sides, jobs: Sequence[Job]) -> list[Verdict]:
    """Tests each schema in child processes, which the kernel ends if they hang."""
    found: list[Verdict] = []
    while len(found) < len(jobs):
        found += _in_a_child(sides, jobs[len(found) :])
        sys.stdout.write(f"{len(found)} of {len(jobs)}\n")
        sys.stdout.flush()
    return found


def _in_a_child(sides: Sides, jobs: Sequence[Job]) -> list[Verdict]:
    """Judges schemas up to the first at which the kernel ends the child."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.close(reading)
        with os.fdopen(writing, "wb") as results:
            for _, side, case in jobs:
                _judge(sides, side, case, results)
        os._exit(0)
    os.close(writing)
    found: list[Verdict] = []
    is_judged = True
    with os.fdopen(reading, "rb") as results:
        for verdict, is_last in _read_records(results):
            found[len(found) - (not is_judged) :] = [verdict]
            is_judged = is_last
    os.waitpid(child, 0)
    if is_judged and len(found) < len(jobs):
        found.append(Verdict(None))  # it has ended while it compiled this one
    return found


def _judge(sides: Sides, side: str, case: Case, results: BinaryIO) -> None:
    """Writes what compiling has come to, and then what the outputs are."""
    signal.setitimer(signal.ITIMER_PROF, COMPILE_SECONDS)
    make, seconds = sides.compile(side, case)
    _write_record(results, Verdict(seconds), is_last=make is None)
    if make is not None:
        signal.setitimer(signal.ITIMER_PROF, JUDGE_SECONDS)
        wrong = sides.wrong(make, case)
        _write_record(results, Verdict(seconds, wrong), is_last=True)


def _write_record(results: BinaryIO, verdict: Verdict, *, is_last: bool) -> None:
    pickle.dump((verdict, is_last), results)
    results.flush()


def _read_records(results: BinaryIO) -> Iterator[tuple[Verdict, bool]]:
    while True:
        try:
            yield pickle.load(results)  # noqa: S301 - our own child
        except (EOFError, pickle.UnpicklingError):
            return


def table(jobs: Sequence[Job], found: Sequence[Verdict]) -> str:
    by_row: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for (category, side, _), verdict in zip(jobs, found, strict=True):
        by_row[category, side].append(verdict)
        by_row["all", side].append(verdict)
    heads = [f"{side} | wrong | ms" for side in SIDES]
    lines = [f"| category | schemas | {' | '.join(heads)} |", "|---" * 11 + "|"]
    for category in dict.fromkeys(category for category, _ in by_row):
        cells = [_cells(by_row[category, side]) for side in SIDES]
        count = len(by_row[category, SIDES[0]])
        if category != "all":
            lines.append(f"| {category} | {count} | {' | '.join(cells)} |")
    cells = [_cells(by_row["all", side]) for side in SIDES]
    lines.append(f"| all | {len(by_row['all', SIDES[0]])} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(found: Sequence[Verdict]) -> str:
    times = [each.seconds for each in found if each.seconds is not None]
    wrong = sum(each.wrong is not None for each in found)
    median = f"{statistics.median(times) * 1000:.1f}" if times else ""
    return f"{len(times) / len(found):.0%} | {wrong} | {median}"


@contextmanager
def silent_errors() -> Iterator[None]:
    """Drops what libraries write to standard error, such as xgrammar's warnings."""
    kept, silent = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(silent)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--schemas", type=Path, metavar="DIR")
    parser.add_argument("--most", type=int, default=20, help="schemas of a category")
    parser.add_argument("--model", default="demo", help="whose vocabulary is used")
    parser.add_argument("--only", nargs="+", metavar="CATEGORY")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    most = options.most
    cases = made(most) if options.schemas is None else read(options.schemas, most)
    jobs = [
        (category, side, case)
        for category, case in every(cases)
        if not options.only or category in options.only
        for side in SIDES
    ]
    sides = Sides(context_of(find_folder(options.model)))
    with silent_errors():
        found = verdicts(sides, jobs)
    print(table(jobs, found))
    for (category, side, case), verdict in zip(jobs, found, strict=True):
        if side == "hookline" and verdict.wrong is not None:
            print(f"wrong: {category}: {case.schema} allows {verdict.wrong}")


if __name__ == "__main__":
    main()
