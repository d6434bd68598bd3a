"""Draws panels of lines over the same time, one below the other, as SVG."""

from collections.abc import Sequence

from hookline_bench.svg import COLOURS, line_at, svg, text_at

WIDTH, PANEL, LEFT, TOP = 640, 130, 50, 40

Panel = tuple[str, Sequence[Sequence[float]]]
"""A title, and the values of each line."""


def time_plot(
    title: str, times: Sequence[float], panels: Sequence[Panel], *, tick_seconds: int
) -> str:
    """An SVG document; lines begin at the time 0, and panels at the value 0."""
    parts = [text_at(10, 20, title, size=13)]
    for number, (name, lines) in enumerate(panels):
        parts += _panel(name, times, lines, TOP + number * PANEL)
    bottom = TOP + len(panels) * PANEL
    parts += [
        text_at(_at_x(time, times), bottom + 8, f"{time} s", anchor="middle")
        for time in range(0, round(times[-1]) + 1, tick_seconds)
    ]
    return svg(WIDTH, bottom + 20, parts)


def _panel(
    name: str, times: Sequence[float], lines: Sequence[Sequence[float]], top: int
) -> list[str]:
    most = 1.1 * max(map(max, lines))
    bottom = top + PANEL - 30

    def at_y(value: float) -> float:
        return bottom - (PANEL - 50) * value / most

    parts = [text_at(LEFT, top + 12, name)]
    for value in (0.0, most / 2, most):
        ends = [(LEFT, at_y(value)), (WIDTH - 20, at_y(value))]
        parts.append(line_at(ends, "#ddd"))
        parts.append(text_at(LEFT - 6, at_y(value) + 4, f"{value:.3g}", anchor="end"))
    for values, colour in zip(reversed(lines), COLOURS, strict=False):
        points = [
            (_at_x(time, times), at_y(value))
            for time, value in zip(times, values, strict=True)
        ]
        parts.append(line_at(points, colour))
    return parts


def _at_x(time: float, times: Sequence[float]) -> float:
    return LEFT + (WIDTH - LEFT - 20) * time / times[-1]
