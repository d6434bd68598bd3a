"""The part `plots` of `cluster.py`: draws what its runs have found."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bar_plot import bar_plot
from cluster_day import rate
from line_plot import line_plot
from time_plot import Panel, time_plot

from hookline_cluster.config import LoadBalancing
from hookline_testing.cluster.autoscaling import Moment
from hookline_testing.cluster.tally import Result


def modes_plot(rows: Mapping[str, Result]) -> str:
    """Bars of the time to the first token, by traffic, balancing and front ends."""
    kinds = dict.fromkeys(key.split("/")[0] for key in rows)
    panels = {
        kind: {
            f"{balancing} × {front_ends}": _ttft_p99(
                rows[f"{kind}/{balancing}/{front_ends}"]
            )
            for balancing in LoadBalancing
            for front_ends in (1, 4)
        }
        for kind in kinds
    }
    return bar_plot("TTFT p99 in ms, by balancing × front ends", panels)


def growth_plots(rows: Mapping[str, Result]) -> dict[str, str]:
    """Lines over the number of engines, by file name."""
    sizes = sorted({int(key.split("/")[1]) for key in rows})

    def plot(title: str, value: Callable[[Result], float]) -> str:
        lines = {
            str(each): [value(rows[f"{each}/{size}"]) for size in sizes]
            for each in LoadBalancing
        }
        return line_plot(title, sizes, lines)

    return {
        "cluster-growth.svg": plot("TTFT p99 in ms, by engines", _ttft_p99),
        "cluster-hits.svg": plot(
            "Part of prompt tokens found in caches, by engines",
            lambda result: result.hit_ratio,
        ),
    }


def day_plot(moments: Sequence[Moment]) -> str:
    """Three panels over time: load, engines and latency."""
    times = [each.at for each in moments]
    ready = [float(each.serving) for each in moments]
    coming = [float(each.serving + each.starting) for each in moments]
    panels: list[Panel] = [
        ("requests per second", [[rate(time) for time in times]]),
        ("engines: serving, and with those that start", [ready, coming]),
        ("TTFT p99 of 5 s in ms", [[1e3 * each.ttft_p99 for each in moments]]),
    ]
    return time_plot("A day in twenty minutes", times, panels, tick_seconds=200)


def write_plots(
    folder: Path,
    modes: Mapping[str, Result],
    growth: Mapping[str, Result],
    day: Sequence[Moment],
) -> None:
    """Writes a file for each plot that has its numbers."""
    texts = growth_plots(growth) if growth else {}
    if modes:
        texts["cluster-modes.svg"] = modes_plot(modes)
    if day:
        texts["cluster-day.svg"] = day_plot(day)
    for name, text in texts.items():
        (folder / name).write_text(text)


def _ttft_p99(result: Result) -> float:
    return 1e3 * result.ttft_seconds["99"]
