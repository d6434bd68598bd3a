"""Spans as an indented tree, for people and for tests."""

from collections.abc import Iterable, Sequence

from opentelemetry.proto.trace.v1.trace_pb2 import Span

NANOSECONDS_PER_MS = 1_000_000


def draw(spans: Sequence[Span]) -> str:
    """Renders traces as trees in order of time; times count from the root's start.

    A span whose parent is not among the spans is a root.
    """
    known = {span.span_id for span in spans}
    roots = [span for span in spans if span.parent_span_id not in known]
    lines: list[str] = []
    for root in _in_order(roots):
        length = _ms(root.end_time_unix_nano - root.start_time_unix_nano)
        lines.append(f"{root.name} · {length} ms")
        lines += _below(root, spans, root.start_time_unix_nano)
    return "\n".join(lines)


def _below(parent: Span, spans: Sequence[Span], zero: int) -> list[str]:
    lines = [
        f"· event {_ms(event.time_unix_nano - zero)} ms {event.name}"
        for event in parent.events
    ]
    children = _in_order(
        span for span in spans if span.parent_span_id == parent.span_id
    )
    for child in children:
        is_last = child is children[-1]
        start = _ms(child.start_time_unix_nano - zero)
        end = _ms(child.end_time_unix_nano - zero)
        lines.append(f"{'└' if is_last else '├'} {child.name} · {start} → {end} ms")
        edge = "  " if is_last else "│ "
        lines += [edge + line for line in _below(child, spans, zero)]
    return lines


def _in_order(spans: Iterable[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: span.start_time_unix_nano)


def _ms(nanoseconds: int) -> str:
    return f"{nanoseconds / NANOSECONDS_PER_MS:.10g}"
