"""Contains the failures of a parser: other replies go on, and no text is lost."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from hookline_metrics.front_end_parts import ParserKind
from hookline_registry import Failure, isolate
from hookline_server.replies.contract import Contract
from hookline_server.replies.failures import FailureCounts
from hookline_server.reply_parsing.parts import (
    CallArguments,
    CallBegun,
    Content,
    Part,
    Reasoning,
    Repair,
)

ALLOWED: dict[ParserKind, tuple[type, ...]] = {
    "tool": (Content, Reasoning, CallBegun, CallArguments, Repair),
    "reasoning": (Content, Reasoning, Repair),
}


MOST_SECONDS = 5.0
"""Processor time for one reply; those of common formats take milliseconds."""

Parts = Sequence[Part | Repair]


class _Parser(Protocol):
    def push(self, text: str) -> Parts: ...
    def finish(self) -> Parts: ...


class GuardedParser:
    """Wraps a plugin's parser of one reply, whose parts keep to the contract.

    Once the plugin's parser raises, returns something invalid, or exceeds its processor
    time, it is not called again: the text that it has not passed on, and all that
    follows, is content.

    Attributes:
        control_tokens: Texts that are left out of content and reasoning.
        ends: Texts that end the reasoning, if the parser finds that.
    """

    def __init__(
        self, kind: ParserKind, name: str, inner: _Parser, failures: FailureCounts
    ) -> None:
        self._kind = kind
        self._name = name
        self._inner: _Parser | None = inner
        self._failures = failures
        self._unsaid: list[str] = []
        self._seconds_left = MOST_SECONDS
        self._has_call = False
        self.ends = _texts(inner, "ends")
        self.control_tokens = _texts(inner, "control_tokens")
        self._contract = Contract(
            self.control_tokens,
            lambda repair: failures.add_repair(kind, name, repair),
        )

    def follow(self, first: "GuardedParser") -> None:
        """Prepares for the content of another parser, which leaves out texts."""
        self._contract.leave_out(first.control_tokens)

    @property
    def is_reasoning(self) -> bool:
        """Whether the text so far ends within reasoning."""
        inner = self._inner
        return isolate(lambda: getattr(inner, "is_reasoning", False)) is True

    def push(self, text: str) -> Sequence[Part]:
        """Returns the parts that the next piece of text completes."""
        if self._inner is None:
            return list(self._contract.kept([Content(text)]))
        self._unsaid.append(text)
        push = self._inner.push
        return list(self._contract.kept(self._called(lambda: push(text))))

    def call_begun(self) -> Sequence[Part]:
        """Ends the reasoning where a call begins; returns the parts held back.

        A parser that cannot be told is not called again: the rest is content.
        """
        if self._inner is None:
            return []
        method = getattr(self._inner, "call_begun", None)
        parts = self._called(method or self._inner.finish)
        if method is None:
            self._inner = None
        return list(self._contract.kept(parts))

    def finish(self, *, is_cut: bool = False) -> Sequence[Part]:
        """Returns the last parts; `is_cut` if the reply was cut short."""
        last: Parts = []
        if (inner := self._inner) is not None:
            cut = getattr(inner, "cut", None) if is_cut else None
            last = self._called(cut or inner.finish)
        return [*self._contract.kept(last), *self._contract.finish(is_cut=is_cut)]

    def _called(self, method: Callable[[], Parts]) -> Parts:
        begun = time.thread_time()
        outcome = isolate(method)
        self._seconds_left -= time.thread_time() - begun
        if isinstance(outcome, Failure):
            return self._fail(outcome.summary, outcome.error)
        if (wrong := self._wrong(outcome)) is not None:
            return self._fail(f"it returned {wrong}", None)
        for part in outcome:
            self._say(part)
        if self._seconds_left > 0:
            return outcome
        late = f"it took more than {MOST_SECONDS:g} s of processor time"
        return [*outcome, *self._fail(late, None)]

    def _wrong(self, outcome: object) -> str | None:
        """Returns what is wrong with the parts that a parser returned, or None."""
        if not isinstance(outcome, list | tuple):
            return f"{type(outcome).__name__}, not a list of parts"
        for part in outcome:
            if type(part) not in ALLOWED[self._kind]:
                return f"{type(part).__name__} among the parts"
            if isinstance(part, Repair):
                continue
            text = part.name if isinstance(part, CallBegun) else part.text
            if not isinstance(text, str):
                return f"a part with {type(text).__name__}, not str"
            self._has_call = self._has_call or isinstance(part, CallBegun)
            if isinstance(part, CallArguments) and not self._has_call:
                return "arguments before any call"
        return None

    def _say(self, part: Part | Repair) -> None:
        """Notes which text has been passed on."""
        if isinstance(part, Content | Reasoning):
            # A text that the parser has changed cannot be found.
            _, _, rest = "".join(self._unsaid).partition(part.text or "\0")
            self._unsaid = [rest]
        elif not isinstance(part, Repair):
            self._unsaid = []

    def _fail(self, reason: str, error: BaseException | None) -> Parts:
        self._failures.add(self._kind, self._name, reason, error)
        self._inner = None
        return [Content("".join(self._unsaid))]


def _texts(parser: _Parser, attribute: str) -> tuple[str, ...]:
    """Returns texts that a parser may name."""
    texts = isolate(lambda: tuple(map(str, getattr(parser, attribute, ()))))
    return () if isinstance(texts, Failure) else texts
