"""Holds the benchmarks of nightly.json against another commit, with a verdict for each.

usage: python benchmarks/bench_compare.py BASE [--model demo] [--cases NAME …]
                                          [--pairs 3] [--out FOLDER]

BASE is any commit. Its files are checked out beside this repository and run with this
environment's packages, so that it need not be installed; a commit that needs others
cannot be compared. Runs alternate, base and then this tree, so that other load on the
machine affects both. The values of all runs of a side are judged together by
`hookline bench compare`. Ends with status 1 if anything is worse by more than noise.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from bench_folders import own_folder

from hookline_bench.server_start import started

HERE = Path(__file__).parent
ROOT = HERE.parent
CASES = HERE / "nightly.json"
START_SECONDS = 600.0
WORSE = 1
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


def judge(case: Case, base: Path, head: Path) -> bool:
    """Prints the comparison of two results; returns whether the second is worse."""
    print(f"== {case.name}", flush=True)
    command = [sys.executable, "-P", "-m", "hookline_server", "bench", "compare"]
    command += [str(base), str(head), "--min-change", MIN_CHANGE]
    return subprocess.run(command, check=False).returncode == WORSE  # noqa: S603


def compare(case: Case, options: argparse.Namespace, base: Path) -> bool:
    """Runs a case on both sides in turns; returns whether this tree is worse."""
    sides = {"base": base, "head": ROOT}
    results: dict[str, list[Mapping[str, object]]] = {name: [] for name in sides}
    for pair in range(options.pairs):
        for name, tree in sides.items():
            output = options.out / f"{case.name}-{name}-{pair}.json"
            run_once(case, options.model, tree, output)
            results[name].append(json.loads(output.read_text()))
    files = {}
    for name, found in results.items():
        files[name] = options.out / f"{case.name}-{name}.json"
        files[name].write_text(json.dumps(merged(found)))
    return judge(case, files["base"], files["head"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", metavar="BASE")
    parser.add_argument("--model", default="demo")
    parser.add_argument("--cases", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.out = options.out or own_folder("bench-compare")
    options.out.mkdir(parents=True, exist_ok=True)
    cases = read_cases(options.cases)
    with checked_out(options.base) as base:
        worse = [case.name for case in cases if compare(case, options, base)]
    print(f"worse than {options.base}: {', '.join(worse) or 'nothing'}")
    return WORSE if worse else 0


if __name__ == "__main__":
    sys.exit(main())
