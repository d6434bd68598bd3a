"""The parts of SVG documents that plots are made of."""

from collections.abc import Sequence
from html import escape

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


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


def line_at(
    points: Sequence[tuple[float, float]], colour: str, *, is_dashed: bool = False
) -> str:
    """Returns a line through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = ' stroke-dasharray="4 3"' if is_dashed else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}"{dashes}/>'


def dot_at(x: float, y: float, colour: str) -> str:
    """Returns a point."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
