"""Command line of the fuzzer: `python -m hookline_faults.fuzzing --cases 50000`."""

import argparse
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from hookline_faults.fuzzing.campaign import Campaign, outcome_table
from hookline_faults.fuzzing.described_campaign import (
    DESCRIBED,
    DESCRIBED_REAL,
    send_described,
)
from hookline_faults.fuzzing.file_campaign import FileCampaign, fuzz_files, shares
from hookline_faults.fuzzing.http_campaign import (
    REAL,
    SIMULATED,
    http_campaign,
    send_raw,
    send_requests,
)
from hookline_faults.fuzzing.socket_campaign import fuzz_sockets

PARTS = ("simulated", "real", "sockets", "files")
DESCRIBED_PARTS = {"described": DESCRIBED, "described-real": DESCRIBED_REAL}
"""Parts that run only if they are named, with all cases each; `make fuzz-api`."""


def main() -> int:
    """Runs all campaigns; returns 1 if one found a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--part", choices=(*PARTS, *DESCRIBED_PARTS), action="append")
    parser.add_argument("--out", type=Path, help="folder for the cases with faults")
    given = parser.parse_args()
    parts = given.part or PARTS
    num_cases = num_faults = 0
    for name in parts:
        if name == "files":
            found = _files(round(given.cases * 0.1), given.seed)
        else:
            found = _server(name, given.cases, given.seed, given.out)
        num_cases, num_faults = num_cases + found[0], num_faults + found[1]
    sys.stdout.write(f"{num_cases} cases, {num_faults} faults\n")
    return int(num_faults > 0)


def _server(name: str, cases: int, seed: int, out: Path | None) -> tuple[int, int]:
    if name == "sockets":
        made = fuzz_sockets(round(cases * 0.2), seed)
    elif name in DESCRIBED_PARTS:
        with (
            http_campaign(name, *DESCRIBED_PARTS[name]) as (made, storm, server),
            suppress(KeyboardInterrupt),  # what was sent so far is judged
        ):
            send_described(storm, server, cases, seed)
    else:
        is_real = name == "real"
        with http_campaign(name, *(REAL if is_real else SIMULATED)) as (made, storm, _):
            send_requests(storm, round(cases * (0.2 if is_real else 0.35)), seed)
            send_raw(storm, round(cases * (0.02 if is_real else 0.17)), seed)
    _write(made.lines())
    if out is not None:
        _write_cases(out, made)
    return made.num_cases, len(made.faults)


def _files(cases: int, seed: int) -> tuple[int, int]:
    made = [fuzz_files(name, count, seed) for name, count in shares(cases)]
    _write(_file_lines(made))
    faults = [fault for each in made for fault in each.faults]
    return sum(each.outcomes.total() for each in made), len(faults)


def _file_lines(made: Iterable[FileCampaign]) -> Iterable[str]:
    yield "## files and messages"
    yield ""
    yield from outcome_table({each.name: each.outcomes for each in made})
    yield ""
    yield from (f"- {fault[:1000]}" for each in made for fault in each.faults)


def _write_cases(folder: Path, made: Campaign) -> None:
    """Writes the bytes of each case with a fault to a file."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (case, fault) in enumerate(made.storm.faults):
        name = f"{made.name}-{number}"
        (folder / f"{name}.bytes").write_bytes(case.data)
        (folder / f"{name}.txt").write_text(f"{case.kind}: {fault}\n", "utf-8")


def _write(lines: Iterable[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
