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
        self._held: dict[type[Content | Reasoning], str] = {}
        """Text of each kind that may be the start of a control token."""

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
                    yield from self._end_call()
                    self._arguments = ArgumentsMender()
                    yield part
                case Content(text) | Reasoning(text):
                    yield from self._end_call()
                    yield from self._without_tokens(type(part), text)

    def finish(self, *, is_cut: bool = False) -> Iterator[Part]:
        """Yields the end of a call's arguments, and texts that were held back.

        Where the reply was cut short, these are the start of a control token.
        """
        yield from self._end_call()
        for kind, held in self._held.items():
            if not is_cut:
                yield kind(held)
        self._held.clear()

    def _end_call(self) -> Iterator[Part]:
        if self._arguments is not None:
            rest = self._arguments.finish()
            self._count_repairs(self._arguments)
            self._arguments = None
            yield CallArguments(rest)

    def _mended(self, text: str) -> Iterator[Part]:
        """Yields what becomes of arguments; what follows their object is content."""
        arguments, rest = self._arguments, text
        if arguments is not None:
            yield CallArguments(arguments.push(text))
            self._count_repairs(arguments)
            rest = arguments.rest.lstrip()
            if rest:
                self._count("bracket")
                yield from self._end_call()
        if rest:
            yield from self._without_tokens(Content, rest)

    def _count_repairs(self, arguments: ArgumentsMender) -> None:
        for kind in arguments.repairs:
            self._count(kind)
        arguments.repairs.clear()

    def _without_tokens(
        self, kind: type[Content | Reasoning], text: str
    ) -> Iterator[Part]:
        if self._markers is None:
            yield kind(text)
            return
        text = self._held.get(kind, "") + text
        while (found := self._markers.search(text, 0)) is not None:
            self._count("tag")
            before = text[: found.start()]  # may end with the start of another
            sure = _certain(self._markers, before)
            yield kind(before[:sure])
            text = before[sure:] + text[found.end() :]
        sure = _certain(self._markers, text)
        self._held[kind] = text[sure:]
        yield kind(text[:sure])


def _certain(markers: Markers, text: str) -> int:
    """Returns how much of a text cannot join a marker, also if one is left out."""
    sure = len(text)
    while (earlier := markers.undecided(text[:sure], 0)) < sure:
        sure = earlier
    return sure
