"""Compares Hookline with its peers on the same work: a table of ratios.

usage: python benchmarks/compare.py [--vllm VENV] [--baseline CHECKOUT]
                                    [--llama-cpp FOLDER]
                                    [--rows NAME …] [--pairs 3] [--sides NAME …]
                                    [--isa avx512_bf16|avx512|avx2]
                                    [--neighbours NAME …]
                                    [--out FOLDER] [--resume] [--most-runs N] [--list]

Every run uses new processes. A pair is one run of each side, A B A B …, so that other
load on the machine affects all sides; the ratio of a pair is Hookline's value over the
peer's. The table has the median, minimum and maximum over the pairs. Peers are
`transformers` in this environment and vLLM in a separate one (created by
benchmarks/install_vllm_cpu.sh), with the better of two thread bindings, and llama.cpp
in the folder of benchmarks/install_llama_cpp.sh, for the rows of that name. --baseline
adds another checkout of Hookline, in which `make serve` or `make test` has created a
virtual environment. Peers that are not installed, or not among --sides, are left out.

Rows named contended-… run beside neighbours and within quotas (see contention.py).
--isa limits all sides to the same instruction set.

Writes compare.md and compare.json to the folder after every run, and each side's output
to logs in the same folder. --resume continues what the folder has, and --most-runs ends
after so many runs, so that a long comparison can be done in pieces.
"""

import argparse
import os
import platform
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from bench_folders import own_folder
from compare_isa import Isa
from compare_record import Record, RecordError
from compare_rows import ROWS
from compare_run import Result, RunFailed, Setting, run_once
from compare_sides import SIDES, Side, sides_of
from compare_table import markdown
from compare_work import Kind
from contention import Neighbours
from cpu_quota import why_unavailable

from hookline import __version__


class Comparing:
    """A running comparison."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._isa: Isa | None = options.isa
        self._out: Path = options.out
        self._record = Record.of(options.out, options.isa, resume=options.resume)
        self._left: int = options.most_runs
        self._quota_lacks = why_unavailable()
        self._neighbours = {
            Neighbours.QUIET,
            *(
                each
                for each in options.neighbours
                if each.quota is None or self._quota_lacks is None
            ),
        }

    def compare(self, name: str) -> None:
        """Runs all pairs of one row that have not been run yet."""
        row = ROWS[name]
        chosen = self._options.sides
        sides = [
            side
            for side in sides_of(
                row,
                self._options.vllm,
                self._options.baseline,
                self._options.llama_cpp,
            )
            if chosen is None or side.name in chosen
        ]
        if self._quota_lacks and any(each.quota for each in row.neighbours):
            self._record.note(f"{name} has no quotas: {self._quota_lacks}")
        warm: set[str] = set()
        for number in range(self._options.pairs):
            for side in sides:
                if len(self._record.runs_of(name, side.name)) > number:
                    continue
                if not self._left:
                    return
                self._left -= 1
                needs_warmup = row.kind is Kind.READY and not row.is_cold
                if needs_warmup and side.name not in warm:
                    self._run(name, side)  # fills caches, not counted
                    warm.add(side.name)
                print(f"{name}: pair {number + 1}", flush=True)
                self._record.add(name, side.name, self._run(name, side))
                self._record.save(_machine())

    def finish(self) -> int:
        """Prints the table; status 1 where a run failed."""
        print(f"\n{markdown(self._record.runs, self._isa)}")
        for line in (*self._record.notes, *self._record.failures):
            print(line)
        return int(bool(self._record.failures))

    def _run(self, name: str, side: Side) -> Result:
        setting = Setting(
            model=self._options.models / ROWS[name].model,
            log=self._out / f"{name}-{side.name}.log",
            isa=self._isa,
            neighbours=self._neighbours,
        )
        result: Result = {}
        try:
            result = run_once(side, ROWS[name], setting)
            shown = ", ".join(f"{key} {value:.4g}" for key, value in result.items())
        except RunFailed as error:
            shown = str(error)
            self._record.failures.append(f"{name}, {side.name}: {error}")
        print(f"  {side.name}: {shown}", flush=True)
        return result


def _write_missing(folder: Path, names: set[str]) -> None:
    missing = [name for name in names if not (folder / name / "config.json").is_file()]
    if missing:
        from bench_models import write_models  # noqa: PLC0415 - takes seconds

        write_models(folder, tuple(missing))


def _machine() -> dict[str, object]:
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "hookline": __version__,
        **{name: version(name) for name in ("torch", "transformers")},
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
    parser.add_argument("--llama-cpp", type=Path, metavar="FOLDER")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--sides", nargs="+", choices=SIDES, metavar="NAME")
    models = own_folder("models")
    parser.add_argument("--models", type=Path, default=models, metavar="FOLDER")
    out = own_folder("compare")
    parser.add_argument("--out", type=Path, default=out, metavar="FOLDER")
    parser.add_argument(
        "--neighbours",
        nargs="+",
        type=Neighbours,
        choices=list(Neighbours),
        default=list(Neighbours),
        metavar="NAME",
        help="in rows named contended-…; always with quiet",
    )
    parser.add_argument("--isa", type=Isa, choices=list(Isa))
    parser.add_argument("--resume", action="store_true", help="continue in --out")
    parser.add_argument("--most-runs", type=int, default=sys.maxsize, metavar="N")
    parser.add_argument("--list", action="store_true", help="the rows, and no more")
    options = parser.parse_args(argv)
    if options.pairs < 1 or options.most_runs < 1:
        parser.error("--pairs and --most-runs must be at least 1")
    if options.vllm is not None and not (options.vllm / "bin" / "vllm").is_file():
        parser.error(f"--vllm: {options.vllm}/bin/vllm does not exist")
    if options.llama_cpp is not None:
        options.llama_cpp = options.llama_cpp.resolve()
        if not (options.llama_cpp / "driver").is_file():
            parser.error(f"--llama-cpp: {options.llama_cpp}/driver does not exist")
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
            print(f"{name:<18}{row.kind.value:<9}{row.work}")
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    _write_missing(options.models, {ROWS[name].model for name in options.rows})
    try:
        comparing = Comparing(options)
    except RecordError as error:
        sys.exit(str(error))
    for name in options.rows:
        comparing.compare(name)
    return comparing.finish()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
