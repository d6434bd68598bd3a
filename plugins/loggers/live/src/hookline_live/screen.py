"""Paints the totals of frames for a terminal."""

import time
import unicodedata
from collections.abc import Iterable
from itertools import chain

from hookline_live.columns import OTHERS
from hookline_live.frame import OwnerState, Row
from hookline_live.totals import WAITING, Totals
from hookline_metrics.adapters import ADAPTER_GATE

_RESET, _BOLD, _SOFT = "\x1b[0m", "\x1b[1m", "\x1b[2m"
_WARN, _GOOD, _WAIT = "\x1b[33m", "\x1b[36m", "\x1b[35m"
_PARTS = {
    "plan": "planning",
    "fixed": "fixed cost",
    "prompts": "prompts",
    "decodes": "decoding",
    "slower": "slower than explained",
}
_UNPRINTABLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def plain(text: str) -> str:
    """Returns text of a client without what a terminal would take as a command."""
    return "".join(
        "\ufffd" if unicodedata.category(each) in _UNPRINTABLE else each
        for each in text
    )


def painted(totals: Totals, width: int, height: int, *, colours: bool = True) -> str:
    """Returns the lines of a screen, each cut to its width and cleared to its end."""
    lines = [
        *(*_state(totals), ""),
        *(*_tenants(totals), ""),
        *_adapters(totals),
        *_requests(totals),
    ]
    end = "\x1b[K\n" if colours else "\n"
    return end.join(
        _styled(style, text[: max(1, width - 1)]) if colours else text.rstrip()
        for style, text in map(_split, lines[: max(1, height - 1)])
    )


def seconds(value: float | None) -> str:
    """Writes a duration."""
    if value is None:
        return "–"
    if value < 0.1:
        return f"{1000 * value:.2g} ms"
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.3g} s"


def _state(totals: Totals) -> Iterable[str]:
    frame = totals.frame
    moment = time.strftime("%H:%M:%S", time.localtime(frame.at / 1000))
    lost = f", {totals.lost} frames lost" if totals.lost else ""
    yield f"{_BOLD}Hookline, {moment}{lost}"
    if frame.note:
        yield f"{_WARN}{frame.note}"
    for engine in frame.engines:
        is_well = engine.state in ("running", "idle")
        reason = f" ({plain(engine.reason)})" if engine.reason else ""
        held = 100 * engine.used / max(1, engine.num_blocks)
        yield (
            f"{_GOOD if is_well else _WARN}engine {engine.index} {plain(engine.model)}"
            f" {engine.state}{reason}: {engine.running} of {engine.max_running} run, "
            f"{engine.waiting} wait{_obstacle(engine.obstacle)}, KV {held:.0f} % of "
            f"{engine.num_blocks} blocks, step {engine.step}"
        )
    parts = ", ".join(
        f"{name} {seconds(totals.quantile(kind, 0.5))} / "
        f"{seconds(totals.quantile(kind, 0.95))}"
        for kind, name in (
            *(("ttft", "first token"), ("itl", "inter-token")),
            *(("e2e", "end to end"), ("queue", "queue")),
        )
    )
    yield f"p50 / p95 of a minute: {parts}"
    longest = totals.longest()
    yield (
        f"tokens/s: {totals.sum('decode', 10) / 10:.0f} decoded, "
        f"{totals.sum('prefill', 10) / 10:.0f} of prompts; in a minute: "
        f"{totals.sum('steps')} steps, the longest {seconds(longest.longest_us / 1e6)} "
        f"(step {longest.longest_step}), {totals.sum('preempted')} preemptions"
    )
    spent = {name: totals.sum(f"{key}_us") for key, name in _PARTS.items()}
    if whole := sum(spent.values()):
        shares = (f"{name} {100 * took / whole:.0f} %" for name, took in spent.items())
        yield f"time of these steps: {', '.join(shares)}"
    obstacles = totals.counter("obstacles").most_common()
    if obstacles:
        told = (f"{name} {seconds(took / 1e6)}" for name, took in obstacles)
        yield f"{_WAIT}held back in a minute by {', '.join(told)}"
    if drafted := totals.sum("drafted"):
        share = 100 * totals.sum("accepted") / drafted
        yield f"drafts: {share:.0f} % of {drafted} tokens accepted"
    if loads := totals.sum("loads"):
        mean = seconds(totals.sum("load_us") / loads / 1e6)
        yield f"transfers: {loads} with {totals.sum('loaded')} tokens, mean {mean}"


def _tenants(totals: Totals) -> Iterable[str]:
    tokens = totals.counter("tenants")
    running = _sums(each.tenants for each in totals.frame.engines)
    yield f"{_SOFT}{'tenant':<24}{'run':>6}{'wait':>6}{'blocks':>9}{'tokens/min':>12}"
    names = sorted({*tokens, *running}, key=lambda name: (-tokens[name], name))
    for name in names:
        shown = "all others" if name == OTHERS else plain(name) or "no tenant"
        runs, waits, blocks = running.get(name, (0, 0, 0))
        yield f"{shown[:23]:<24}{runs:>6}{waits:>6}{blocks:>9}{tokens[name]:>12}"


def _adapters(totals: Totals) -> Iterable[str]:
    """Yields a table and an empty line, or nothing without adapters."""
    sums = _sums(each.adapters for each in totals.frame.engines)
    if not sums:
        return
    yield f"{_SOFT}{'adapter':<24}{'run':>6}{'wait':>6}{'blocks':>9}"
    for name in sorted(sums, key=lambda name: (-sum(sums[name][:2]), name)):
        shown = "all others" if name == OTHERS else plain(name) or "base model"
        runs, waits, blocks = sums[name]
        yield f"{shown[:23]:<24}{runs:>6}{waits:>6}{blocks:>9}"
    gated = sum(each.held.get(ADAPTER_GATE, 0) for each in totals.frame.engines)
    if gated:
        yield f"{_WAIT}{gated} wait for their adapter"
    yield ""


def _sums(parts: Iterable[Iterable[OwnerState]]) -> dict[str, list[int]]:
    """Adds up [running, waiting, blocks] of owners of several engines by name."""
    found: dict[str, list[int]] = {}
    for each in chain.from_iterable(parts):
        name = OTHERS if each.name is None else each.name
        sums = found.setdefault(name, [0, 0, 0])
        for place, more in enumerate((each.running, each.waiting, each.blocks)):
            sums[place] += more
    return found


def _requests(totals: Totals) -> Iterable[str]:
    yield (
        f"{_SOFT}{'request':<36}{'tenant':<16}{'engine':>6}  {'phase':<10}{'age':>9}"
        f"{'prompt':>8}{'cached':>8}{'output':>8}"
    )
    for engine, row, age in totals.requests():
        phase = row.phases[-1][0] if row.phases else "queued"
        style = _WAIT if phase in WAITING else ""
        yield (
            f"{style}{_name(row)[:35]:<36}{plain(row.tenant)[:15]:<16}{engine:>6}  "
            f"{phase:<10}{seconds(age):>9}{row.prompt:>8}{row.cached:>8}{row.output:>8}"
        )


def _name(row: Row) -> str:
    return plain(row.client or row.response) or f"#{row.id}"


def _obstacle(name: str) -> str:
    return f" ({name})" if name else ""


def _split(line: str) -> tuple[str, str]:
    """Divides a line into its style and its text."""
    for style in (_BOLD, _SOFT, _WARN, _GOOD, _WAIT):
        if line.startswith(style):
            return style, line.removeprefix(style)
    return "", line


def _styled(style: str, text: str) -> str:
    return f"{style}{text}{_RESET}" if style else text
