"""Draws the measured steps of a sweep, and its two rooflines, as SVG."""

import math
from collections.abc import Callable, Sequence

from hookline_bench.roofline import Bend, Point, Roofline
from hookline_bench.svg import COLOURS, dot_at, line_at, svg, text_at

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 44, 48
_STEPS = 120
_MEASURED, _MODELLED, _ = COLOURS[:3]


def roofline_plot(
    title: str, points: Sequence[Point], bend: Bend | None, model: Roofline | None
) -> str:
    """Returns the document: milliseconds of a step over the batch size, both by log."""
    sizes = [point.batch_size for point in points]
    seconds = [point.seconds for point in points]
    if model is not None:
        seconds += [model.seconds(size) for size in sizes]
    left, right = math.log(min(sizes)), math.log(max(sizes) * 1.001)
    low, high = math.log(min(seconds) / 1.5), math.log(max(seconds) * 1.5)

    def at(size: float, duration: float) -> tuple[float, float]:
        x = (math.log(size) - left) / max(right - left, 1e-9)
        y = (math.log(duration) - low) / (high - low)
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * x,
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y,
        )

    def curve(duration: Callable[[float], float]) -> list[tuple[float, float]]:
        grid = (left + (right - left) * step / _STEPS for step in range(_STEPS + 1))
        return [at(math.exp(each), duration(math.exp(each))) for each in grid]

    parts = [text_at(LEFT, TOP - 22, title, size=13), *_axes(sizes, low, high, at)]
    if model is not None:
        parts.append(line_at(curve(model.seconds), _MODELLED))
        parts += _mark("modelled", model.saturated_at, _MODELLED, sizes, at, low, high)
    if bend is not None:
        parts.append(line_at(curve(bend.seconds), _MEASURED))
        parts += _mark("measured", bend.batch_size, _MEASURED, sizes, at, low, high)
    parts += [dot_at(*at(each.batch_size, each.seconds), _MEASURED) for each in points]
    legend = WIDTH - RIGHT + 12
    parts.append(text_at(legend, TOP + 4, "measured", colour=_MEASURED))
    if model is not None:
        parts.append(text_at(legend, TOP + 20, "by the peaks", colour=_MODELLED))
    return svg(WIDTH, HEIGHT, parts)


def _axes(
    sizes: Sequence[int],
    low: float,
    high: float,
    at: Callable[[float, float], tuple[float, float]],
) -> list[str]:
    parts = []
    for step in range(5):
        duration = math.exp(low + (high - low) * step / 4)
        (x, y), (end, _) = at(min(sizes), duration), at(max(sizes), duration)
        parts.append(line_at([(x, y), (end, y)], "#ddd"))
        parts.append(text_at(LEFT - 6, y + 4, f"{duration * 1000:.3g}", anchor="end"))
    bottom = HEIGHT - BOTTOM
    for size in sizes:
        x, _ = at(size, math.exp(low))
        parts.append(text_at(x, bottom + 16, str(size), anchor="middle"))
    parts.append(text_at(LEFT, HEIGHT - 12, "requests that decode together"))
    parts.append(text_at(LEFT, TOP - 6, "ms per step"))
    return parts


def _mark(
    name: str,
    batch_size: float | None,
    colour: str,
    sizes: Sequence[int],
    at: Callable[[float, float], tuple[float, float]],
    low: float,
    high: float,
) -> list[str]:
    """Returns the line at a B_sat that lies among the batch sizes."""
    if batch_size is None or not min(sizes) <= batch_size <= max(sizes):
        return []
    bottom, top = at(batch_size, math.exp(low)), at(batch_size, math.exp(high))
    height = top[1] + (12 if name == "measured" else 26)
    label = f"B_sat {name}: {batch_size:.3g}"
    return [
        line_at([bottom, top], colour, is_dashed=True),
        text_at(bottom[0] + 4, height, label, colour=colour),
    ]
