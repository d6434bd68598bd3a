"""The items of a response's output, and their events."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET, Raw

from hookline_server.answers.open_items import (
    Events,
    OpenItem,
    Place,
    opened_call,
)
from hookline_server.answers.reply import call_id
from hookline_server.protocol.call_forms import CallForms
from hookline_server.protocol.responses_events import (
    ContentPartAdded,
    ContentPartDone,
    OutputItemAdded,
    OutputItemDone,
    OutputTextDelta,
    OutputTextDone,
    ReasoningTextDelta,
    ReasoningTextDone,
)
from hookline_server.protocol.responses_items import new_id
from hookline_server.protocol.responses_object import (
    NO_LOGPROBS,
    ItemStatus,
    OutputItem,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ReasoningText,
)
from hookline_server.protocol.sealed_reasoning import sealed
from hookline_server.reply_parsing.parts import (
    CallArguments,
    CallBegun,
    Content,
    Part,
    Reasoning,
)


class OutputItems:
    """The items of one response, in the order in which the model writes them.

    Attributes:
        done: The items that have ended.
    """

    def __init__(
        self, numbers: Iterator[int], forms: CallForms, *, seals: bool
    ) -> None:
        """Has no items yet.

        Args:
            numbers: The numbers of the next events.
            forms: How the client knows the tools.
            seals: Whether reasoning is also told as encrypted content.
        """
        self.done: list[OutputItem] = []
        self._numbers = numbers
        self._forms = forms
        self._seals = seals
        self._open: OpenItem | None = None
        self._kind: type[Part] | None = None
        self._logprobs: list[bytes] = []

    @property
    def so_far(self) -> list[OutputItem]:
        """All items; the last one may have been cut short."""
        last = [] if self._open is None else [self._open.item("incomplete")]
        return [*self.done, *last]

    def take_logprobs(self, pieces: Sequence[bytes]) -> None:
        """Takes the log-probabilities of the next text, as JSON without brackets."""
        self._logprobs += pieces

    def add_part(self, part: Part) -> Events:
        """Adds what the model has written next."""
        kind = CallBegun if isinstance(part, CallArguments) else type(part)
        if self._open is None or self._kind is not kind or isinstance(part, CallBegun):
            yield from self._ended("completed")
            yield from self._begun(part)
            self._kind = kind
        if self._open is not None and not isinstance(part, CallBegun):
            logprobs = self._taken() if kind is Content else ()
            yield from self._open.add(part.text, logprobs)

    def finish(self, status: ItemStatus) -> Events:
        """Ends the last item; a reply without items gets an empty message."""
        if self._open is None and not self.done:
            yield from self._begun(Content(""))
            self._kind = Content
        if self._open is not None and self._kind is Content and self._logprobs:
            yield from self._open.add("", self._taken())  # of tokens without a text
        yield from self._ended(status)

    def _begun(self, part: Part) -> Events:
        self._open = self._opened(part)
        item = self._open.item("in_progress")
        yield OutputItemAdded(next(self._numbers), len(self.done), item)
        yield from self._open.begin()

    def _ended(self, status: ItemStatus) -> Events:
        if self._open is None:
            return
        yield from self._open.end()
        item = self._open.item(status)
        yield OutputItemDone(next(self._numbers), len(self.done), item)
        self.done.append(item)
        self._open = None

    def _opened(self, part: Part) -> OpenItem:
        index = len(self.done)
        match part:
            case CallBegun():
                form = self._forms.of(part.name)
                place = Place(self._numbers, index, new_id(form.kind))
                return opened_call(place, call_id(part), form)
            case Reasoning():
                place = Place(self._numbers, index, new_id("reasoning"))
                return _OpenReasoning(place, seals=self._seals)
            case _:
                return _OpenMessage(Place(self._numbers, index, new_id("message")))

    def _taken(self) -> Sequence[bytes]:
        taken, self._logprobs = self._logprobs, []
        return taken


def json_list(pieces: Sequence[bytes]) -> Raw:
    """Returns a JSON list, given its items as JSON, several of them in each piece."""
    return Raw(b"[" + b",".join(filter(None, pieces)) + b"]")


class _OpenMessage:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._texts: list[str] = []
        self._logprobs: list[bytes] = []
        self._whole: OutputText | None = None

    def _part(self) -> OutputText:
        """The part, which is joined only once, as it may be large."""
        if self._whole is not None:
            return self._whole
        return OutputText("".join(self._texts), json_list(self._logprobs))

    def item(self, status: ItemStatus) -> OutputMessage:
        content = [] if status == "in_progress" else [self._part()]
        return OutputMessage(id=self._place.id, status=status, content=content)

    def begin(self) -> Events:
        yield ContentPartAdded(*self._place.next, 0, OutputText("", NO_LOGPROBS))

    def add(self, text: str, logprobs: Sequence[bytes]) -> Events:
        self._texts.append(text)
        self._logprobs += logprobs
        yield OutputTextDelta(*self._place.next, 0, text, json_list(logprobs))

    def end(self) -> Events:
        self._whole = part = self._part()
        yield OutputTextDone(*self._place.next, 0, part.text, part.logprobs)
        yield ContentPartDone(*self._place.next, 0, part)


class _OpenReasoning:
    def __init__(self, place: Place, *, seals: bool) -> None:
        self._place = place
        self._seals = seals
        self._texts: list[str] = []

    @property
    def _part(self) -> ReasoningText:
        return ReasoningText("".join(self._texts))

    def item(self, status: ItemStatus) -> ReasoningItem:
        is_told = status != "in_progress"
        part = self._part
        return ReasoningItem(
            id=self._place.id,
            status=status,
            content=[part] if is_told else [],
            encrypted_content=sealed(part.text) if is_told and self._seals else UNSET,
        )

    def begin(self) -> Events:
        yield ContentPartAdded(*self._place.next, 0, ReasoningText(""))

    def add(self, text: str, logprobs: Sequence[bytes]) -> Events:  # noqa: ARG002
        self._texts.append(text)
        yield ReasoningTextDelta(*self._place.next, 0, text)

    def end(self) -> Events:
        part = self._part
        yield ReasoningTextDone(*self._place.next, 0, part.text)
        yield ContentPartDone(*self._place.next, 0, part)
