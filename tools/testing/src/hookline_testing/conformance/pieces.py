"""Texts cut into pieces, as parsers of replies get them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from hookline_registry import Failure
from hookline_testing.conformance.subject import Subject


class Parser(Protocol):
    """What parsers of both kinds have."""

    def push(self, text: str) -> Sequence[object]: ...

    def finish(self) -> Sequence[object]: ...


def check_pieces(
    subject: Subject,
    make: Callable[[], Parser | None],
    texts: Sequence[str],
    kinds: tuple[type, ...],
) -> None:
    """Has a parser read texts whole and in pieces; the parts must be the same."""
    for text in texts:
        found: list[list[tuple[str, str]]] = []
        for size in (len(text) or 1, 1, 3):
            parser = make()
            if parser is None:
                return
            parts = subject.call("push or finish", _parts, parser, text, size)
            if isinstance(parts, Failure):
                return
            for part in parts:
                if not isinstance(part, kinds):
                    names = ", ".join(kind.__name__ for kind in kinds)
                    subject.fault(
                        f"push returns {type(part).__name__}, not {names}",
                        getattr(type(parser), "push", None),
                    )
                    return
            found.append(list(_joined(parts)))
        if any(each != found[0] for each in found):
            subject.fault(
                f"its parts depend on how {text!r} is cut into pieces",
                getattr(type(make()), "push", None),
            )
            return


def _parts(parser: Parser, text: str, size: int) -> list[object]:
    parts: list[object] = []
    for start in range(0, len(text), size):
        parts += parser.push(text[start : start + size])
    return [*parts, *parser.finish()]


def _joined(parts: Sequence[object]) -> Iterator[tuple[str, str]]:
    """Yields kinds and texts, with neighbours of one kind joined."""
    kind, text = "", ""
    for part in parts:
        own = str(getattr(part, "text", getattr(part, "name", part)))
        if type(part).__name__ == kind and hasattr(part, "text"):
            text += own
            continue
        if kind:
            yield kind, text
        kind, text = type(part).__name__, own
    if kind:
        yield kind, text
