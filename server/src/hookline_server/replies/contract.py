"""What the parts of every reply keep to, whatever the model wrote."""

from collections.abc import Callable, Collection, Iterable, Iterator

from hookline_metrics.front_end_parts import RepairKind
from hookline_server.reply_parsing.json_mender import ArgumentsMender
from hookline_server.reply_parsing.parts import (
    CallArguments,
    CallBegun,
    Content,
    Part,
    Reasoning,
    Repair,
)
from hookline_server.reply_parsing.reader import Markers


class Contract:
    """Arguments are the JSON of an object, and no control token is text."""

    def __init__(
        self, control_tokens: Collection[str], count: Callable[[RepairKind], None]
    ) -> None:
        """Has seen no part yet.

        Args:
            control_tokens: Texts that are left out of content and reasoning.
            count: Counts a repair.
        """
        self._count = count
        self._markers = Markers(*control_tokens) if control_tokens else None
        self._arguments: ArgumentsMender | None = None
        self._text: type[Content | Reasoning] = Content
        self._held = ""  # may be the start of a control token

    def kept(self, parts: Iterable[Part | Repair]) -> Iterator[Part]:
        """Yields what becomes of the next parts."""
        for part in parts:
            match part:
                case Repair(kind):
                    self._count(kind)
                case CallArguments(text):
                    yield from self._mended(text)
                case CallBegun():
                    yield from self.end()
                    self._arguments = ArgumentsMender()
                    yield part
                case Content(text) | Reasoning(text):
                    if self._arguments is not None or type(part) is not self._text:
                        yield from self.end()
                    self._text = type(part)
                    yield from self._without_tokens(text)

    def end(self) -> Iterator[Part]:
        """Yields the end of a call's arguments, or a text that was held back."""
        if self._arguments is not None:
            rest = self._arguments.finish()
            self._count_repairs()
            self._arguments = None
            yield CallArguments(rest)
        if self._held:
            held, self._held = self._held, ""
            yield self._text(held)

    def _mended(self, text: str) -> Iterator[Part]:
        assert self._arguments is not None, "a call has begun"
        yield CallArguments(self._arguments.push(text))
        self._count_repairs()

    def _count_repairs(self) -> None:
        assert self._arguments is not None, "a call has begun"
        for kind in self._arguments.repairs:
            self._count(kind)
        self._arguments.repairs.clear()

    def _without_tokens(self, text: str) -> Iterator[Part]:
        if self._markers is None:
            yield self._text(text)
            return
        text, at = self._held + text, 0
        while (found := self._markers.search(text, at)) is not None:
            self._count("tag")
            yield self._text(text[at : found.start()])
            at = found.end()
        sure = self._markers.undecided(text, at)
        self._held = text[sure:]
        yield self._text(text[at:sure])
