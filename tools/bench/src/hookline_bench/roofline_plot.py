"""Draws the measured steps of a sweep, and its two rooflines, as SVG."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hookline_bench.roofline import Bend, Point, Roofline
from hookline_bench.svg import COLOURS, dot_at, line_at, svg, text_at

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 44, 48
_STEPS = 120


@dataclass(frozen=True, slots=True)
class _Frame:
    """The drawn ranges, both by log.

    Attributes:
        sizes: The batch sizes, in order.
        low: Logarithm of the shortest duration.
        high: Logarithm of the longest.
    """

    sizes: Sequence[int]
    low: float
    high: float

    def at(self, size: float, duration: float) -> tuple[float, float]:
        """Returns the place of a batch size and a duration."""
        left, right = math.log(self.sizes[0]), math.log(self.sizes[-1])
        x = (math.log(size) - left) / max(right - left, 1e-9)
        y = (math.log(duration) - self.low) / (self.high - self.low)
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * x,
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y,
        )

    def curve(self, duration: Callable[[float], float]) -> list[tuple[float, float]]:
        """Returns the points of a function of the batch size."""
        first, last = self.sizes[0], self.sizes[-1]
        grid = (first * (last / first) ** (step / _STEPS) for step in range(_STEPS + 1))
        return [self.at(size, duration(size)) for size in grid]

    def axes(self) -> list[str]:
        """Returns the lines and numbers of both axes."""
        parts = []
        for step in range(5):
            duration = math.exp(self.low + (self.high - self.low) * step / 4)
            x, y = self.at(self.sizes[0], duration)
            parts.append(line_at([(x, y), self.at(self.sizes[-1], duration)], "#ddd"))
            text = f"{duration * 1000:.3g}"
            parts.append(text_at(LEFT - 6, y + 4, text, anchor="end"))
        for size in self.sizes:
            x, y = self.at(size, math.exp(self.low))
            parts.append(text_at(x, y + 16, str(size), anchor="middle"))
        parts.append(text_at(LEFT, HEIGHT - 12, "requests that decode together"))
        parts.append(text_at(LEFT, TOP - 6, "ms per step"))
        return parts

    def mark(self, label: str, batch_size: float | None, row: int) -> list[str]:
        """Returns the line at a B_sat that lies among the batch sizes."""
        if batch_size is None or not self.sizes[0] <= batch_size <= self.sizes[-1]:
            return []
        bottom = self.at(batch_size, math.exp(self.low))
        top = self.at(batch_size, math.exp(self.high))
        text, colour = f"B_sat {label}: {batch_size:.3g}", COLOURS[row]
        return [
            line_at([bottom, top], colour, is_dashed=True),
            text_at(bottom[0] + 4, top[1] + 12 + 14 * row, text, colour=colour),
        ]


def roofline_plot(
    title: str, points: Sequence[Point], bend: Bend | None, model: Roofline | None
) -> str:
    """Returns the document: milliseconds of a step over the batch size, both by log."""
    sizes = sorted(point.batch_size for point in points)
    seconds = [point.seconds for point in points]
    if model is not None:
        seconds += [model.seconds(size) for size in sizes]
    frame = _Frame(sizes, math.log(min(seconds) / 1.5), math.log(max(seconds) * 1.5))
    legend = WIDTH - RIGHT + 12
    parts = [text_at(LEFT, TOP - 22, title, size=13), *frame.axes()]
    parts.append(text_at(legend, TOP + 4, "measured", colour=COLOURS[0]))
    if bend is not None:
        parts.append(line_at(frame.curve(bend.seconds), COLOURS[0]))
        parts += frame.mark("measured", bend.batch_size, 0)
    if model is not None:
        parts.append(text_at(legend, TOP + 20, "by the peaks", colour=COLOURS[1]))
        parts.append(line_at(frame.curve(model.seconds), COLOURS[1]))
        parts += frame.mark("modelled", model.saturated_at, 1)
    parts += [
        dot_at(*frame.at(each.batch_size, each.seconds), COLOURS[0]) for each in points
    ]
    return svg(WIDTH, HEIGHT, parts)
