"""Renders what engines tell: `python -m hookline_metrics.tells_document`.

The table is in docs/engines.md; a test compares the two.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence

from hookline.tells import Tells
from hookline_metrics.engine_tells import EngineTells, declared_by, engine_names

MEANINGS: Mapping[Tells, str] = {
    Tells.REQUESTS: "each request's end, objectives, tenant",
    Tells.EVENTS: "queue and prefill time, preemptions",
    Tells.STEPS: "steps, saturation, transfers, grammars",
    Tells.PLAN: "`hookline why`, live view, recordings",
    Tells.BLOCKS: "KV blocks used, cached, free",
    Tells.EVICTIONS: "evicted blocks",
    Tells.DRAFTS: "speculative decoding",
    Tells.COST: "operations and bytes",
    Tells.CONTENT: "ids of tokens",
    Tells.LOAD: "running and waiting requests",
    Tells.USAGE: "use of the KV cache",
    Tells.CACHE: "prefix-cache hits",
    Tells.CONFIG: "limits and sizes, sleep",
    Tells.CONTEXT: "context length",
    Tells.FRONT_END: "texts, connections, process",
    Tells.OBSERVER: "observer process",
}
"""What one sees of it."""


def table(engines: Mapping[str, EngineTells]) -> str:
    """Returns a line for each of `Tells`, and a column for each engine, as Markdown."""
    lines = [["`tells`", "what one sees", *(f"`{name}`" for name in engines)]]
    lines.append(["---"] * len(lines[0]))
    lines += [
        [f"`{each}`", MEANINGS[each], *_cells(each, engines.values())] for each in Tells
    ]
    return "\n".join(f"|{'|'.join(cells)}|" for cells in lines)


def _cells(told: Tells, engines: Iterable[EngineTells]) -> Sequence[str]:
    def cell(engine: EngineTells) -> str:
        if told in engine.never:
            return "–"
        return "if" if told in engine.sometimes else "yes"

    return [cell(each) for each in engines]


def document() -> str:
    """Returns the table of all installed engines."""
    return table({name: declared_by(name) for name in engine_names()})


if __name__ == "__main__":
    sys.stdout.write(f"{document()}\n")
