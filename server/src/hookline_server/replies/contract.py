"""What the parts of every reply keep to, whatever the model wrote."""

from collections.abc import Callable, Collection, Iterable, Iterator

from hookline_metrics.front_end_parts import RepairKind
from hookline_server.reply_parsing.arguments_mender import ArgumentsMender
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
        self._tokens: tuple[str, ...] = ()
        self._markers: Markers | None = None
        self.leave_out(control_tokens)
        self._arguments: ArgumentsMender | None = None
        self._text: type[Content | Reasoning] = Content
        self._held = ""  # may be the start of a control token

    def leave_out(self, control_tokens: Collection[str]) -> None:
        """Leaves out other tokens, too: what one parser leaves out may join them."""
        self._tokens = tuple(dict.fromkeys((*self._tokens, *control_tokens)))
        self._markers = Markers(*self._tokens) if self._tokens else None

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
            self._count_repairs(self._arguments)
            self._arguments = None
            yield CallArguments(rest)
        if self._held:
            held, self._held = self._held, ""
            yield self._text(held)

    def _mended(self, text: str) -> Iterator[Part]:
        """Yields what becomes of arguments; what follows their object is content."""
        arguments, rest = self._arguments, text
        if arguments is not None:
            yield CallArguments(arguments.push(text))
            self._count_repairs(arguments)
            rest = arguments.rest
            if rest.strip():
                self._count("bracket")
                yield from self.end()
                self._text = Content
        if rest.strip() or arguments is None:
            yield from self._without_tokens(rest)

    def _count_repairs(self, arguments: ArgumentsMender) -> None:
        for kind in arguments.repairs:
            self._count(kind)
        arguments.repairs.clear()

    def _without_tokens(self, text: str) -> Iterator[Part]:
        if self._markers is None:
            yield self._text(text)
            return
        text = self._held + text
        while (found := self._markers.search(text, 0)) is not None:
            self._count("tag")
            before = text[: found.start()]  # may end with the start of another
            sure = self._markers.undecided(before, 0)
            yield self._text(before[:sure])
            text = before[sure:] + text[found.end() :]
        sure = self._markers.undecided(text, 0)
        self._held = text[sure:]
        yield self._text(text[:sure])
