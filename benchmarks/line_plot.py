"""Draws a few lines as SVG."""

import math
from collections.abc import Mapping, Sequence

from hookline_bench.svg import COLOURS, dot_at, line_at, svg, text_at

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 150, 40, 40


def line_plot(
    title: str, xs: Sequence[float], lines: Mapping[str, Sequence[float]]
) -> str:
    """An SVG document: x by log(1 + x), y from 0 to a little above the most."""
    most = 1.1 * max(max(ys) for ys in lines.values())
    span = math.log1p(max(xs))

    def at_x(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log1p(x) / span

    def at_y(y: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / most

    parts = [text_at(LEFT, TOP - 18, title)]
    for step in range(5):
        y = most * step / 4
        parts.append(line_at([(LEFT, at_y(y)), (WIDTH - RIGHT, at_y(y))], "#ddd"))
        parts.append(text_at(LEFT - 6, at_y(y) + 4, f"{y:.3g}", anchor="end"))
    parts += [
        text_at(at_x(x), HEIGHT - BOTTOM + 18, f"{x:g}", anchor="middle") for x in xs
    ]
    for (name, ys), colour in zip(lines.items(), COLOURS, strict=False):
        points = [(at_x(x), at_y(y)) for x, y in zip(xs, ys, strict=True)]
        parts.append(line_at(points, colour))
        parts += [dot_at(x, y, colour) for x, y in points]
        last = points[-1]
        parts.append(text_at(last[0] + 8, last[1] + 4, name, colour=colour))
    return svg(WIDTH, HEIGHT, parts)
