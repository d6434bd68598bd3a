"""Draws horizontal bar charts as SVG; each panel has its own scale."""

from collections.abc import Mapping

from hookline_bench.svg import COLOURS, svg, text_at

PANEL_WIDTH, ROW, LABELS, VALUES, TOP = 320, 20, 130, 50, 44


def bar_plot(title: str, panels: Mapping[str, Mapping[str, float]]) -> str:
    """An SVG document: panels by their names, two in a row, of values by name.

    Bars have the colour of the first word of their name.
    """
    rows = max(map(len, panels.values()))
    height = ROW * rows + TOP
    colours = _colours(next(iter(panels.values())))
    parts = [text_at(10, 20, title, size=13)]
    for number, (name, values) in enumerate(panels.items()):
        left = 10 + PANEL_WIDTH * (number % 2)
        top = 30 + height * (number // 2)
        parts.append(text_at(left, top + 18, name))
        scale = (PANEL_WIDTH - LABELS - VALUES) / max(values.values())
        for place, (label, value) in enumerate(values.items()):
            y = top + 28 + ROW * place
            parts.append(text_at(left + LABELS - 6, y + 12, label, anchor="end"))
            parts.append(
                f'<rect x="{left + LABELS}" y="{y}" width="{value * scale:.1f}" '
                f'height="{ROW - 4}" fill="{colours[label.split()[0]]}"/>'
            )
            end = left + LABELS + value * scale
            parts.append(text_at(end + 5, y + 12, f"{value:.3g}"))
    return svg(2 * PANEL_WIDTH + 20, 40 + height * -(-len(panels) // 2), parts)


def _colours(values: Mapping[str, float]) -> dict[str, str]:
    words = dict.fromkeys(label.split()[0] for label in values)
    return dict(zip(words, COLOURS, strict=False))
