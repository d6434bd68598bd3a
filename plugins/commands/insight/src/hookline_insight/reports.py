"""Reports on whole engines: who takes what, what bounds them, and whether they hang."""

import json
import time
from collections.abc import Iterable
from pathlib import Path

from hookline_insight.bounds import bound_of
from hookline_insight.explainer import Explainer
from hookline_insight.sources import is_live, read
from hookline_insight.stalled import Standstill, standstill
from hookline_insight.usage import BY, Usage
from hookline_insight.usage import fields as usage_fields
from hookline_insight.usage import lines as usage_lines
from hookline_insight.wording import safe_text

EATS = tuple(BY)
"""What the eaters of an engine can be told apart by."""


def report(
    found: Iterable[Explainer], *, eats: str | None, is_bound: bool, is_json: bool
) -> str:
    """Tells who eats what, by one of `EATS`, and what bounds each engine."""
    told: list[dict[str, object]] = []
    lines: list[str] = []
    for explainer in found:
        header = explainer.recording.header
        index, whose = header.engine_index, f"process {header.pid}, {header.model}"
        fields: dict[str, object] = {"engine_index": index, "pid": header.pid}
        lines.append(safe_text(f"engine {index} ({whose})"))
        if is_bound:
            bound = bound_of(explainer)
            fields["bound"] = bound.fields()
            lines += bound.lines()
        if eats is not None:
            usage = Usage(explainer)
            fields["eats"] = usage_fields(usage, eats)
            lines += usage_lines(usage, eats)
        told.append(fields)
    return json.dumps(told) if is_json else "\n".join(lines)


def standstills(paths: Iterable[Path]) -> list[Standstill]:
    """Tells how the engine of each recording is.

    Raises:
        CommandFailedError: One cannot be read.
    """
    found = []
    for path in paths:
        live = is_live(path)
        recording, now = read(path), time.monotonic_ns()
        explainer = Explainer(recording, now if live else None)
        found.append(standstill(explainer, is_live=live, now=now))
    return found


def told(found: Iterable[Standstill], *, is_json: bool) -> str:
    """Returns how engines are as text or JSON."""
    if is_json:
        return json.dumps([each.fields() for each in found])
    return "\n".join(line for each in found for line in each.lines())
