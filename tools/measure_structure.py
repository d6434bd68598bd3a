"""Prints the figures of the source tree's structure, their limits and their goals.

`python tools/measure_structure.py` prints a table; `--json` prints the figures for
`--against`, which sets those of another checkout beside them; `--lower` rewrites the
limits of those that have shrunk. With `--root`, it measures the sources of another
checkout, which may be older than this tool.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hookline_testing.structure.figures import (
    Figures,
    by_feature,
    engine_step,
    static_figures,
    traced,
    traced_figures,
)
from hookline_testing.structure.settings import LIMITS, Settings, lowered

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, and prints or lowers."""
    options = _parser().parse_args(arguments)
    settings = Settings.read(ROOT / LIMITS)
    figures = static_figures(options.root, settings)
    if not options.static and options.root == ROOT:
        traces = traced(ROOT, settings, options.kernels)
        figures |= traced_figures(traces, settings)
        step = engine_step(traces)
        figures["decode.engine.with_kernels"] = step.total()
        for name, count in by_feature(step, settings.features).items():
            figures[f"decode.engine.feature.{name}"] = count
    if options.lower:
        path = ROOT / LIMITS
        path.write_text(lowered(path.read_text("utf-8"), figures), "utf-8")
    before = json.loads(options.against.read_text("utf-8")) if options.against else {}
    text = json.dumps(figures, indent=1) if options.json else table(figures, before)
    sys.stdout.write(text + "\n")
    return 0


def table(figures: Figures, before: Figures) -> str:
    """Returns a Markdown table of the figures."""
    limits = Settings.read(ROOT / LIMITS).limits
    head = ["figure", *(["before"] if before else []), "now", "limit", "goal"]
    rows = [head, ["---"] * len(head)]
    for name, value in figures.items():
        limit = limits.get(name)
        row = [name, *([_shown(before.get(name))] if before else []), f"{value:,}"]
        most, goal = (limit.most, limit.goal) if limit else (None, None)
        rows.append([*row, _shown(most), _shown(goal)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _shown(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Measures the structure of the source tree."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--lower", action="store_true", help="lower the limits of shrunken figures"
    )
    parser.add_argument(
        "--static", action="store_true", help="serve nothing, count no calls"
    )
    parser.add_argument(
        "--kernels",
        choices=("torch", "auto"),
        default="torch",
        help="what computes while calls are counted; the limits are for torch",
    )
    parser.add_argument(
        "--root", type=Path, default=ROOT, help="checkout whose sources are measured"
    )
    parser.add_argument(
        "--against", type=Path, help="file of --json to set beside the figures"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
