"""Counts which JSON schemas compile, in Hookline and in the unmodified libraries.

usage: python benchmarks/schema_coverage.py [--schemas DIR] [--most 50] [--model demo]
                                            [--only CATEGORY …]

Reads the schemas in a folder, such as a checkout of JSONSchemaBench (maskbench/data
has values with each schema), or makes its own in ten categories. Hookline is
`backend: auto` with its checks and its trial. The libraries compile without any checks;
what they allow and the schema does not is found by the values of the folder's files,
and by a few random outputs, so that "wrong" is a lower bound. `jsonschema` is the
judge; formats are not judged. Every compilation has ten seconds of processor time, but
Hookline one, as by default.

Prints a row per category: schemas, and for each side the share that compiles, the
number of those that are wrong, and the median time.
"""

import argparse
import os
import pickle
import signal
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from coverage_schemas import Case, every, made, read
from coverage_sides import Sides, Verdict, context_of

from hookline.models.description import find_folder

SIDES = ("hookline", "xgrammar", "llguidance")
LIMITS = {"hookline": 1.0, "xgrammar": 10.0, "llguidance": 10.0}
JUDGE_SECONDS = 10.0

Job = tuple[str, str, Case]
"""Category, side and schema."""


def verdicts(sides: Sides, jobs: Sequence[Job]) -> list[Verdict]:
    """Tests each schema in child processes, which the kernel ends if they hang."""
    found: list[Verdict] = []
    while len(found) < len(jobs):
        reading, writing = os.pipe()
        if not (child := os.fork()):
            os.close(reading)
            with os.fdopen(writing, "wb") as results:
                for _, side, case in jobs[len(found) :]:
                    seconds = LIMITS[side] + JUDGE_SECONDS
                    signal.setitimer(signal.ITIMER_PROF, seconds)
                    verdict = sides.judge(side, case)
                    if verdict.seconds is not None and verdict.seconds > LIMITS[side]:
                        verdict = Verdict(None)
                    pickle.dump(verdict, results)
                    results.flush()
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as results:
            while True:
                try:
                    found.append(pickle.load(results))  # noqa: S301 - our own child
                except (EOFError, pickle.UnpicklingError):
                    break
        os.waitpid(child, 0)
        if len(found) < len(jobs):
            found.append(Verdict(None))  # what it has ended at
    return found


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--schemas", type=Path, metavar="DIR")
    parser.add_argument("--most", type=int, default=50, help="schemas of a category")
    parser.add_argument("--model", default="demo", help="whose vocabulary is used")
    parser.add_argument("--only", nargs="+", metavar="CATEGORY")
    options = parser.parse_args()
    cases = made() if options.schemas is None else read(options.schemas, options.most)
    jobs = [
        (category, side, case)
        for category, case in every(cases)
        if not options.only or category in options.only
        for side in SIDES
    ]
    sides = Sides(context_of(find_folder(options.model)))
    silent = os.open(os.devnull, os.O_WRONLY)
    kept = os.dup(2)
    os.dup2(silent, 2)  # xgrammar's warnings
    try:
        found = verdicts(sides, jobs)
    finally:
        os.dup2(kept, 2)
    print(table(jobs, found))
    for (category, side, case), verdict in zip(jobs, found, strict=True):
        if side == "hookline" and verdict.wrong is not None:
            print(f"wrong: {category}: {case.schema} allows {verdict.wrong}")


if __name__ == "__main__":
    main()
