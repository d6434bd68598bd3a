"""The parsers that a server was started with, imported and checked."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hookline.exceptions import ConfigError
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import REASONING_PARSER, TOOL_PARSER
from hookline.structured_outputs import ReasoningSpan
from hookline_metrics.front_end_parts import ParserKind
from hookline_registry import Failure, PluginKind, RegistryError, isolate
from hookline_server.replies.failures import FailureCounts
from hookline_server.replies.guarded_parser import GuardedParser
from hookline_server.replies.settings import ReplySettings
from hookline_server.reply_parsing.reasoning_parser import (
    ReasoningBeforeGrammar,
    ReasoningParser,
    ReasoningParserContext,
)
from hookline_server.reply_parsing.tool_parser import (
    NamesCalls,
    StrictToolParser,
    ToolParser,
    ToolParserContext,
)

KINDS: Mapping[ParserKind, PluginKind] = {
    "tool": TOOL_PARSER,
    "reasoning": REASONING_PARSER,
}
OPTIONS: Mapping[ParserKind, str] = {
    "tool": "tool-call-parser",
    "reasoning": "reasoning-parser",
}

ParserContext = ToolParserContext | ReasoningParserContext
C = TypeVar("C", ToolParserContext, ReasoningParserContext, ParserContext)

MakeCallId = Callable[[str, int], str | None]
"""Makes the id of a call, given the function's name and the call's index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenParser:
    """A kind of parser that an option names.

    Attributes:
        kind: What it finds.
        name: Its entry point's name.
        make: Makes one for a reply; takes the argument `context`.
        needs_special_tokens: Whether the text must contain special tokens.
        failures: Counts its failures.
        tokenizer: See `ToolParserContext`.
        precedes_grammars: Whether it can tell where a structured output begins.
        has_structural_tags: Whether it can make calls follow their schemas.
    """

    kind: ParserKind
    name: str
    make: Callable[..., object]
    needs_special_tokens: bool
    failures: FailureCounts
    tokenizer: Mapping[str, object] | None = None
    precedes_grammars: bool = False
    has_structural_tags: bool = False

    def parser(self, context: ParserContext) -> GuardedParser | None:
        """Returns a parser for one reply; a failure is counted, and returns None."""
        made = isolate(self.make, context=self._completed(context))
        if isinstance(made, Failure):
            self.failures.add(self.kind, self.name, made.summary, made.error)
            return None
        if not isinstance(made, ToolParser):  # both kinds have these members
            self.failures.add(self.kind, self.name, "it makes no parser", None)
            return None
        return GuardedParser(self.kind, self.name, made, self.failures)

    def reasoning_span(self, context: ReasoningParserContext) -> ReasoningSpan | None:
        """Returns the reasoning that may precede a structured output.

        Returns None if the parser does not say, and counts that as a failure.
        """
        outcome = isolate(_reasoning_span, self.make, self._completed(context))
        if isinstance(outcome, Failure):
            self.failures.add(self.kind, self.name, outcome.summary, outcome.error)
            return None
        return outcome

    def call_ids(self, context: ToolParserContext) -> MakeCallId:
        """Returns what makes the ids of forced calls.

        It returns None for a call whose id has no particular form; so it does if the
        parser fails, which is counted.
        """

        def made(name: str, index: int) -> str | None:
            outcome = isolate(
                _call_id, self.make, self._completed(context), name, index
            )
            if isinstance(outcome, Failure):
                self.failures.add(self.kind, self.name, outcome.summary, outcome.error)
                return None
            return outcome

        return made

    def structural_tag(
        self, context: ToolParserContext, strict: Collection[str]
    ) -> Mapping[str, object] | None:
        """Returns the structural tag that makes calls follow their schemas.

        Returns None if the format has none, or if the parser fails, which is counted.
        """
        context = self._completed(context)
        outcome = isolate(_structural_tag, self.make, context, strict)
        if isinstance(outcome, Failure):
            self.failures.add(self.kind, self.name, outcome.summary, outcome.error)
            return None
        return outcome

    def _completed(self, context: C) -> C:
        return replace(context, tokenizer=self.tokenizer)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenParsers:
    """The parsers of both kinds; None for an option that is not set.

    Attributes:
        failures: Counts the failures of both.
    """

    tool: ChosenParser | None = None
    reasoning: ChosenParser | None = None
    failures: FailureCounts = field(default_factory=FailureCounts)


def choose_parsers(
    settings: ReplySettings, tokenizer: Mapping[str, object] | None = None
) -> ChosenParsers:
    """Imports the parsers that the settings name, and creates each once as a check.

    Args:
        settings: The settings.
        tokenizer: See `ToolParserContext`.

    Raises:
        ConfigError: One is not installed, cannot be imported, or cannot be created.
    """
    failures = FailureCounts()
    tool = reasoning = None
    if settings.tool_call_parser is not None:
        tool = _choose("tool", settings.tool_call_parser, failures, tokenizer)
    if settings.reasoning_parser is not None:
        reasoning = _choose("reasoning", settings.reasoning_parser, failures, tokenizer)
    is_automatic = settings.enable_auto_tool_choice is not False
    return ChosenParsers(
        tool=tool if is_automatic else None, reasoning=reasoning, failures=failures
    )


def _choose(
    kind: ParserKind,
    name: str,
    failures: FailureCounts,
    tokenizer: Mapping[str, object] | None,
) -> ChosenParser:
    option = OPTIONS[kind]
    try:
        make = hook_of(KINDS[kind], name)
    except RegistryError as error:
        raise ConfigError(option, str(error)) from error
    traits = isolate(_traits, kind, make, tokenizer)
    if isinstance(traits, Failure):
        reason = f"{name!r} cannot be used: {traits.summary}"
        raise ConfigError(option, reason) from traits.error
    failures.watch(kind, name)
    needs_special_tokens, is_extended = traits
    return ChosenParser(
        kind=kind,
        name=name,
        make=make,
        needs_special_tokens=needs_special_tokens,
        failures=failures,
        tokenizer=tokenizer,
        precedes_grammars=kind == "reasoning" and is_extended,
        has_structural_tags=kind == "tool" and is_extended,
    )


def _reasoning_span(
    make: Callable[..., object], context: ReasoningParserContext
) -> ReasoningSpan | None:
    made = make(context=context)
    assert isinstance(made, ReasoningBeforeGrammar), "it was at the start"
    span = made.reasoning_span
    if not isinstance(span, ReasoningSpan | None):
        raise TypeError(f"its reasoning_span is {type(span).__name__}")
    return span


def _call_id(
    make: Callable[..., object], context: ToolParserContext, name: str, index: int
) -> str | None:
    made = make(context=context)
    if not isinstance(made, NamesCalls):
        return None
    found = made.call_id(name, index)
    if not isinstance(found, str) or not found:
        raise TypeError(f"its call_id returns {found!r}")
    return found


def _structural_tag(
    make: Callable[..., object], context: ToolParserContext, strict: Collection[str]
) -> Mapping[str, object] | None:
    made = make(context=context)
    assert isinstance(made, StrictToolParser), "it was at the start"
    tag = made.structural_tag(strict)
    if not isinstance(tag, Mapping | None):
        raise TypeError(f"its structural_tag returns {type(tag).__name__}")
    return tag


def _traits(
    kind: ParserKind,
    make: Callable[..., object],
    tokenizer: Mapping[str, object] | None,
) -> tuple[bool, bool]:
    """Returns whether it needs special tokens, and whether it supports grammars."""
    context: ParserContext = ToolParserContext(tools={}, tokenizer=tokenizer)
    protocol: type = ToolParser
    if kind == "reasoning":
        context = ReasoningParserContext(tokenizer=tokenizer)
        protocol = ReasoningParser
    made = make(context=context)
    if not isinstance(made, protocol):
        members = ", ".join(sorted(each for each in dir(protocol) if each[0] != "_"))
        raise TypeError(f"it makes no {protocol.__name__} ({members})")
    assert isinstance(made, ToolParser)  # both kinds have these members
    needs = made.needs_special_tokens
    if not isinstance(needs, bool):
        raise TypeError(f"its needs_special_tokens is {needs!r}")
    extended = ReasoningBeforeGrammar if kind == "reasoning" else StrictToolParser
    return needs, isinstance(made, extended)
