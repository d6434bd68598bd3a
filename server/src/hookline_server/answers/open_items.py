"""Items of a response that grow: what they have in common, and calls."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec import UNSET

from hookline_server.answers.custom_input import CustomInput
from hookline_server.protocol.call_forms import CallForm
from hookline_server.protocol.responses_events import (
    CallArgumentsDelta,
    CallArgumentsDone,
    CustomInputDelta,
    CustomInputDone,
    ResponseEvent,
)
from hookline_server.protocol.responses_object import (
    CustomToolCall,
    FunctionCall,
    ItemStatus,
    OutputItem,
    ToolSearchCall,
)
from hookline_server.protocol.wire import MALFORMED

Events = Iterator[ResponseEvent]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item's events belong.

    Attributes:
        numbers: The numbers of the next events.
        index: The item's place in the output.
        id: The item's id.
    """

    numbers: Iterator[int]
    index: int
    id: str

    @property
    def next(self) -> tuple[int, int, str]:
        """The number, index and id of the item's next event."""
        return next(self.numbers), self.index, self.id


class OpenItem(Protocol):
    """An item that grows."""

    def item(self, status: ItemStatus) -> OutputItem:
        """Returns the item as it is now."""
        ...

    def begin(self) -> Events:
        """Yields the events that follow that of the new item."""
        ...

    def add(self, text: str, logprobs: Sequence[bytes]) -> Events:
        """Adds text with log-probabilities, and yields its event."""
        ...

    def end(self) -> Events:
        """Yields the events that precede that of the whole item."""
        ...


def opened_call(place: Place, call_id: str, form: CallForm) -> OpenItem:
    """Returns the item of a call that has begun, in the form that its client knows."""
    match form.kind:
        case "custom_tool_call":
            return _OpenCustomCall(place, call_id, form)
        case "tool_search_call":
            return _OpenSearch(place, call_id, form)
        case "function_call":
            return _OpenCall(place, call_id, form)


class _OpenCall:
    def __init__(self, place: Place, call_id: str, form: CallForm) -> None:
        self._place = place
        self._call_id = call_id
        self._form = form
        self._arguments: list[str] = []

    def item(self, status: ItemStatus) -> OutputItem:
        return FunctionCall(
            id=self._place.id,
            call_id=self._call_id,
            name=self._form.name,
            namespace=self._form.namespace or UNSET,
            arguments="".join(self._arguments),
            status=status,
        )

    def begin(self) -> Events:
        yield from ()

    def add(self, text: str, logprobs: Sequence[bytes]) -> Events:  # noqa: ARG002
        self._arguments.append(text)
        yield CallArgumentsDelta(*self._place.next, text)

    def end(self) -> Events:
        yield from self._told_whole()

    def _told_whole(self) -> Events:
        arguments = "".join(self._arguments)
        yield CallArgumentsDone(*self._place.next, self._form.name, arguments)


class _OpenSearch(_OpenCall):
    """A search for tools, which is told at once when it is whole."""

    def item(self, status: ItemStatus) -> OutputItem:
        try:
            arguments = msgspec.json.decode(
                "".join(self._arguments), type=dict[str, object]
            )
        except MALFORMED:  # not whole yet, or cut short
            arguments = {}
        return ToolSearchCall(
            id=self._place.id,
            call_id=self._call_id,
            arguments=arguments,
            status=status,
        )

    def add(self, text: str, logprobs: Sequence[bytes]) -> Events:  # noqa: ARG002
        self._arguments.append(text)
        yield from ()

    def _told_whole(self) -> Events:
        yield from ()


class _OpenCustomCall:
    def __init__(self, place: Place, call_id: str, form: CallForm) -> None:
        self._place = place
        self._call_id = call_id
        self._form = form
        self._decoder = CustomInput()
        self._input: list[str] = []

    def item(self, status: ItemStatus) -> CustomToolCall:
        return CustomToolCall(
            id=self._place.id,
            call_id=self._call_id,
            name=self._form.name,
            namespace=self._form.namespace or UNSET,
            input="".join(self._input),
            status=status,
        )

    def begin(self) -> Events:
        yield from ()

    def add(self, text: str, logprobs: Sequence[bytes]) -> Events:  # noqa: ARG002
        yield from self._grown(self._decoder.push(text))

    def end(self) -> Events:
        yield from self._grown(self._decoder.finish())
        yield CustomInputDone(*self._place.next, "".join(self._input))

    def _grown(self, text: str) -> Events:
        if text:
            self._input.append(text)
            yield CustomInputDelta(*self._place.next, text)
