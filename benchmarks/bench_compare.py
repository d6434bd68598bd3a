"""Holds the benchmarks of nightly.json against another commit, with a verdict for each.

usage: python benchmarks/bench_compare.py BASE [--quick] [--model demo]
           [--cases NAME …] [--pairs 3] [--minutes N] [--out FOLDER]

BASE is any commit. Its files are checked out beside this repository and run with this
environment's packages, so that it need not be installed; a commit that needs others
cannot be compared. Runs alternate, base and then this tree, so that other load on the
machine affects both, and each case has had one pair before any has a second. The values
of all runs of a side are judged together by `hookline bench compare`. Ends with status
1 if anything is worse by more than noise, in all of them and in each pair.

`--minutes` begins no further pair that would end later; `--quick` is two pairs of three
cases in five minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from bench_folders import own_folder

from hookline_bench.server_start import started

HERE = Path(__file__).parent
ROOT = HERE.parent
CASES = HERE / "nightly.json"
START_SECONDS = 600.0
WORSE = 1
QUICK_CASES = ("latency", "throughput", "serve-all")
QUICK_PAIRS, QUICK_MINUTES = 2, 5.0
MIN_CHANGE = "5"
"""Percentage below which a change does not matter: that of two runs of a side."""


@dataclass(frozen=True)
class Case:
    """One benchmark.

    Attributes:
        name: Its name in the report.
        benchmark: Arguments of `hookline bench`.
        server: Options of the server that it measures; None if it needs none.
    """

    name: str
    benchmark: Sequence[str]
    server: Sequence[str] | None

    def command(self, output: Path, *rest: str) -> list[str]:
        """Returns the command, with the file of the result and further arguments."""
        words = [sys.executable, "-P", "-m", "hookline_server", "bench"]
        words += [*self.benchmark, "--output-json", str(output), "--disable-tqdm"]
        return [*words, *rest]


def read_cases(names: Sequence[str]) -> list[Case]:
    """Returns the cases of these names, or all; exits for an unknown one."""
    cases = [
        Case(each["name"], each["benchmark"], each.get("server"))
        for each in json.loads(CASES.read_text())
    ]
    known = {case.name for case in cases}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"no case {unknown[0]!r}; there are {', '.join(sorted(known))}")
    return [case for case in cases if not names or case.name in names]


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Yields a folder with the files of a commit."""
    with tempfile.TemporaryDirectory(prefix="hookline-base-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "-q", tree, commit], check=True)  # noqa: S603
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", tree], check=True)  # noqa: S603


def environment(tree: Path) -> dict[str, str]:
    """Returns the variables with which a tree's modules precede the installed ones."""
    found = (tree.glob(f"{depth}/src/hookline*") for depth in ("*", "*/*", "*/*/*"))
    sources = sorted({str(each.parent) for some in found for each in some})
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sources)}


def run_once(case: Case, model: str, tree: Path, output: Path) -> None:
    """Runs a case of a tree; exits if it fails.

    A server is the tree's, and the client that measures it always that of this tree.
    """
    if case.server is None:
        status = _run(case.command(output, "--model", model), environment(tree))
    else:
        options = ["--model", model, *case.server]
        with started(options, START_SECONDS, environment(tree)) as server:
            command = case.command(output, "--base-url", server.url)
            status = _run(command, environment(ROOT))
    if status:
        sys.exit(f"{case.name} has failed in {tree}")


def _run(command: Sequence[str], variables: Mapping[str, str]) -> int:
    done = subprocess.run(  # noqa: S603
        command, env=dict(variables), stdout=subprocess.DEVNULL, check=False
    )
    return done.returncode


def merged(results: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Returns the result of several runs: all of their values, the means of numbers."""
    first = results[0]
    fields: dict[str, object] = {}
    for name, value in first.items():
        values = [each.get(name) for each in results]
        lists = [each for each in values if isinstance(each, list)]
        numbers = [each for each in values if isinstance(each, int | float)]
        if lists:
            fields[name] = [one for each in lists for one in each]
        elif len(set(numbers)) > 1:
            fields[name] = fmean(numbers)
        else:
            fields[name] = value
    return fields


def judge(base: Path, head: Path, *, is_shown: bool = True) -> bool:
    """Prints the comparison of two results; returns whether the second is worse."""
    command = [sys.executable, "-P", "-m", "hookline_server", "bench", "compare"]
    command += [str(base), str(head), "--min-change", MIN_CHANGE]
    output = None if is_shown else subprocess.DEVNULL
    done = subprocess.run(command, stdout=output, check=False)  # noqa: S603
    return done.returncode == WORSE


@dataclass
class Clock:
    """Says on standard error which run begins, and how long all of them take.

    Attributes:
        runs: Number of runs.
        seconds: Time for all of them; None if there is no limit.
        begun: When the first one began.
        done: How many have ended.
        longest: The longest pair of each case that has had one, in seconds.
    """

    runs: int
    seconds: float | None
    begun: float = field(default_factory=time.monotonic)
    done: int = 0
    longest: dict[str, float] = field(default_factory=dict)

    def has_time(self, case: str) -> bool:
        """Returns whether a further pair of a case ends in time; the first one may."""
        passed = time.monotonic() - self.begun
        needed = self.longest.get(case, 0.0)
        return self.seconds is None or passed + needed <= self.seconds

    def begin(self, what: str) -> None:
        """Tells of a run."""
        passed = time.monotonic() - self.begun
        left = passed / self.done * (self.runs - self.done) if self.done else None
        if left is not None and self.seconds is not None:
            left = min(left, self.seconds - passed)
        rest = "" if left is None else f", about {max(left, 0) / 60:.1f} minutes left"
        say(f"[{self.done + 1}/{self.runs}] {what}{rest}")

    def end_pair(self, case: str, seconds: float) -> None:
        """Notes how long a pair has taken."""
        self.longest[case] = max(seconds, self.longest.get(case, 0.0))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


Results = dict[str, list[Mapping[str, object]]]
"""Side → results of its runs."""


def measure(
    cases: Sequence[Case], options: argparse.Namespace, base: Path
) -> dict[str, Results]:
    """Runs the cases on both sides in turns, while there is time."""
    sides = {"base": base, "head": ROOT}
    results: dict[str, Results] = {
        case.name: {"base": [], "head": []} for case in cases
    }
    seconds = None if options.minutes is None else options.minutes * 60
    clock = Clock(len(cases) * options.pairs * len(sides), seconds)
    for pair in range(options.pairs):
        for case in cases:
            if not clock.has_time(case.name):
                say(f"no time for pair {pair + 1} of {case.name}")
                clock.runs -= len(sides)
                continue
            begun = time.monotonic()
            for name, tree in sides.items():
                clock.begin(f"{case.name}, {name}")
                output = result_file(options.out, case, name, pair)
                run_once(case, options.model, tree, output)
                results[case.name][name].append(json.loads(output.read_text()))
                clock.done += 1
            clock.end_pair(case.name, time.monotonic() - begun)
    return results


def result_file(out: Path, case: Case, side: str, pair: int) -> Path:
    """Returns where the result of a run is."""
    return out / f"{case.name}-{side}-{pair}.json"


def verdict(case: Case, results: Results, out: Path) -> bool:
    """Prints the comparison of a case; returns whether this tree is worse.

    Each pair must show it, because other load may have slowed one of them.
    """
    print(f"== {case.name}", flush=True)
    files = {}
    for name, found in results.items():
        files[name] = out / f"{case.name}-{name}.json"
        files[name].write_text(json.dumps(merged(found)))
    if not judge(files["base"], files["head"]):
        return False
    pairs = len(results["head"])
    worse = 0
    for pair in range(pairs):
        base, head = (result_file(out, case, side, pair) for side in ("base", "head"))
        worse += judge(base, head, is_shown=False)
    print(f"{case.name} is worse in {worse} of {pairs} pairs", flush=True)
    return worse == pairs


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the options, with what `--quick` stands for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", metavar="BASE")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--model", default="demo")
    parser.add_argument("--cases", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    if options.quick:
        options.cases = options.cases or list(QUICK_CASES)
        options.minutes = options.minutes or QUICK_MINUTES
    options.pairs = options.pairs or (QUICK_PAIRS if options.quick else 3)
    return options


def main() -> int:
    options = read_options()
    cases = read_cases(options.cases)
    options.out = options.out or own_folder("bench-compare")
    options.out.mkdir(parents=True, exist_ok=True)
    names = ", ".join(case.name for case in cases)
    limit = "" if options.minutes is None else f", {options.minutes:g} minutes at most"
    say(f"{options.pairs} pairs of {names} beside {options.base}{limit}")
    with checked_out(options.base) as base:
        results = measure(cases, options, base)
    judged = [case for case in cases if results[case.name]["head"]]
    worse = [
        case.name for case in judged if verdict(case, results[case.name], options.out)
    ]
    if left_out := [case.name for case in cases if case not in judged]:
        print(f"not measured: {', '.join(left_out)}")
    print(f"worse than {options.base}: {', '.join(worse) or 'nothing'}")
    return WORSE if worse else 0


if __name__ == "__main__":
    sys.exit(main())
