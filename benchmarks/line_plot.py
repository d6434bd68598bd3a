"""Draws a few lines as SVG."""

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 150, 40, 40
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


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
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
            for x, y in points
        ]
        last = points[-1]
        parts.append(text_at(last[0] + 8, last[1] + 4, name, colour=colour))
    return svg(WIDTH, HEIGHT, parts)


def svg(width: int, height: int, parts: Sequence[str]) -> str:
    """Returns the document of these parts, on white for light and dark pages."""
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" '
        f'font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n'
        f"{body}\n</svg>\n"
    )


def text_at(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    colour: str = "#333",
    size: int = 11,
) -> str:
    """Returns a line of text whose start, middle or end is at x."""
    bigger = "" if size == 11 else f' font-size="{size}"'
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"'
        f"{bigger}>{escape(text)}</text>"
    )


def line_at(points: Sequence[tuple[float, float]], colour: str) -> str:
    """Returns a line through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}"/>'
