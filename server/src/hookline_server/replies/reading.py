"""How the replies to one request are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from hookline.exceptions import RequestError
from hookline.frontend.stop_strings import StopScope
from hookline.sampling_params import SamplingParams
from hookline.structured_outputs import StructuredOutputsParams
from hookline_server.engine import ServingEngine
from hookline_server.protocol.completion import Prompt
from hookline_server.protocol.tool_use import NO_TOOLS, Choice, ToolUse
from hookline_server.replies.answer_stops import AnswerStops
from hookline_server.replies.failures import FailureCounts
from hookline_server.replies.forced_calls import (
    calls_grammar,
    forced_parser,
    forced_schema,
    loose_parts,
)
from hookline_server.replies.parsers import ChosenParser, ChosenParsers, MakeCallId
from hookline_server.replies.reply_reader import ReplyReader
from hookline_server.replies.strict_calls import forced_tag, loose_tags, strict_tag
from hookline_server.reply_parsing.reasoning_parser import ReasoningParserContext
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_PROMPT_TAIL = 32
"""Number of the prompt's last tokens that a reasoning parser gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyReading:
    """The parsers for the replies to one request.

    Attributes:
        use: The request's tools.
        tool: Finds calls, or None.
        reasoning: Finds reasoning, or None.
        shows_reasoning: Whether the client gets the reasoning.
        prompt_end: The prompt's last characters.
        reasons_first: Whether reasoning may precede a structured output.
        tag: Structural tag that makes calls in the model's own format follow their
            schemas; None leaves them free, or forces them as JSON.
        is_structured: Whether the content has a form of its own, in which nothing is a
            tag.
        past_calls: Number of calls in the conversation before.
        is_chat: Whether a chat template has made the prompt.
    """

    use: ToolUse = NO_TOOLS
    tool: ChosenParser | None = None
    reasoning: ChosenParser | None = None
    shows_reasoning: bool = True
    prompt_end: str = ""
    reasons_first: bool = False
    tag: Mapping[str, object] | None = None
    is_structured: bool = False
    past_calls: int = 0
    is_chat: bool = True

    @property
    def needs_special_tokens(self) -> bool:
        """Whether the text of replies must contain special tokens."""
        chosen = (self.tool, self.reasoning)
        return any(each is not None and each.needs_special_tokens for each in chosen)

    @property
    def is_forced(self) -> bool:
        """Whether the model has to write a call, and nothing else."""
        return self.use.choice in (Choice.REQUIRED, Choice.NAMED)

    @property
    def grammar_field(self) -> str:
        """The request's field that leads to a grammar, for errors."""
        if not self.is_forced and self.tag is None:
            return "structured_outputs"
        return "functions" if self.use.is_legacy else "tools"

    def adapted(self, params: SamplingParams) -> tuple[SamplingParams, "ReplyReading"]:
        """Returns the parameters that the parsers need, and the parsers for them.

        A forced call takes precedence over another JSON format of the text.

        Raises:
            LimitError: The schemas of calls that must follow them are too large.
            RequestError: They are invalid, or the request asks for another form of
                output.
        """
        is_structured = self.is_forced or params.structured_outputs is not None
        reading = replace(self, is_structured=is_structured)
        return self._parameters(params), reading

    def _parameters(self, params: SamplingParams) -> SamplingParams:
        if self.needs_special_tokens:
            params = msgspec.structs.replace(params, skip_special_tokens=False)
        if not self.is_forced and (self.tag is None or params.structured_outputs):
            return self._with_reasoning(params)
        if _shapes_more_than_json(params):
            raise RequestError(
                f"{self.use.choice_field}: a forced call cannot be combined with a "
                "form of output other than JSON",
                param=self.use.choice_field,
            )
        try:
            grammar = self._grammar_of_calls()
        except RequestError as error:
            error.param = self.grammar_field
            error.args = (f"{error.param}: {error}",)
            raise
        params = msgspec.structs.replace(params, structured_outputs=grammar)
        return self._with_reasoning(params)

    def _grammar_of_calls(self) -> StructuredOutputsParams:
        if self.tag is None:
            schema, loose = forced_schema(self.use), loose_parts(self.use)
            return calls_grammar(schema, loose, is_tag=False)
        loose = loose_tags(self.tag, self.use) if self.is_forced else ()
        return calls_grammar(self.tag, loose, is_tag=True)

    def _with_reasoning(self, params: SamplingParams) -> SamplingParams:
        """Lets the model reason before a structured output."""
        asked = params.structured_outputs
        if asked is None or self.reasoning is None or not self.reasons_first:
            return params
        context = ReasoningParserContext(prompt_end=self.prompt_end)
        span = self.reasoning.reasoning_span(context)
        asked = msgspec.structs.replace(asked, reasoning=span)
        return msgspec.structs.replace(params, structured_outputs=asked)

    def finish_word(self, word: str, *, has_calls: bool) -> str:
        """Returns the finish reason of a reply, given that of its text.

        A reply that was cut short keeps its reason, even if it has calls. A named
        function ends with `stop`, as with OpenAI.
        """
        is_named = self.use.choice is Choice.NAMED
        if not has_calls or word != "stop" or is_named:
            return word
        return "function_call" if self.use.is_legacy else "tool_calls"

    def stop_scopes(self, params: SamplingParams) -> Sequence[StopScope]:
        """Returns where stop strings count: none for the whole text, or one.

        They end neither reasoning nor calls. As the engine has to stop where they are,
        the reply is read there, too.
        """
        if not params.stop or (self.tool is None and self.reasoning is None):
            return ()
        silent = [
            each and replace(each, failures=FailureCounts.uncounted())
            for each in (self.tool, self.reasoning)
        ]
        again = replace(self, tool=silent[0], reasoning=silent[1])
        return (partial(AnswerStops, make_reader=again.reader),)

    def reader(self) -> ReplyReader | None:
        """Returns a reader for one reply; None if its text is all content."""
        if self.tool is None and self.reasoning is None:
            return None
        reasoning = tools = None
        if self.reasoning is not None:
            before = ReasoningParserContext(
                prompt_end=self.prompt_end,
                is_structured=self.is_structured,
                is_chat=self.is_chat,
            )
            reasoning = self.reasoning.parser(before)
        if self.tool is not None:
            schemas = {
                tool.name: tool.parameters
                for tool in self.use.tools
                if self.use.name in (None, tool.name)
            }
            ends = () if reasoning is None else reasoning.ends
            context = ToolParserContext(
                tools=schemas, reasoning_ends=ends, past_calls=self.past_calls
            )
            tools = self.tool.parser(context)
        return ReplyReader(
            reasoning,
            tools,
            is_parallel=self.use.is_parallel,
            is_forced=self.is_forced,
        )


def _shapes_more_than_json(params: SamplingParams) -> bool:
    asked = params.structured_outputs
    return asked is not None and not (asked.json_object or asked.json is not None)


def check_use(use: ToolUse, parsers: ChosenParsers, engine: ServingEngine) -> None:
    """Checks that this server can do what a request wants of its tools.

    Raises:
        RequestError: It cannot.
    """
    is_forced = use.choice in (Choice.REQUIRED, Choice.NAMED)
    if is_forced and not engine.facts.structured_outputs:
        raise RequestError(
            f"{use.choice_field}: this server cannot force calls, as it has no grammar "
            "backend (pip install hookline-xgrammar); use 'auto' or 'none'",
            param=use.choice_field,
        )
    if use.choice is Choice.AUTO and parsers.tool is None:
        field = "functions" if use.is_legacy else "tools"
        raise RequestError(
            f"{field}: calls are found only by a server that was started with "
            f"--tool-call-parser; {use.choice_field} 'none' leaves the functions out",
            param=field,
        )


def reply_reading(
    engine: ServingEngine,
    parsers: ChosenParsers,
    use: ToolUse,
    prompt: Sequence[int],
    *,
    shows_reasoning: bool,
    continues: bool = False,
    past_calls: int = 0,
) -> ReplyReading:
    """Returns how the replies to a prompt are read.

    Calls are forced in the model's own format if that can be. Where reasoning cannot
    precede a grammar, they take up the whole text. A continuation of a message is
    content, like the message.
    """
    if continues:
        parsers = replace(parsers, reasoning=None)
    is_forced = use.choice in (Choice.REQUIRED, Choice.NAMED)
    reasons_first = can_reason_first(parsers, engine)
    tool = parsers.tool if use.choice is Choice.AUTO else None
    tag = None
    if is_forced:
        tool, tag = parsers.tool, forced_tag(engine, parsers.tool, use)
        if tool is None or tag is None:
            tool = forced_parser(use, parsers.failures, _call_ids(tool, past_calls))
        if not reasons_first:
            return ReplyReading(use=use, tool=tool, tag=tag, past_calls=past_calls)
    elif parsers.reasoning is None or reasons_first:
        tag = strict_tag(engine, tool, use)
    prompt_end = _end_of(prompt, engine) if parsers.reasoning is not None else ""
    return ReplyReading(
        use=use,
        tool=tool,
        reasoning=parsers.reasoning,
        shows_reasoning=shows_reasoning,
        prompt_end=prompt_end,
        reasons_first=reasons_first,
        tag=tag,
        past_calls=past_calls,
    )


def _call_ids(parser: ChosenParser | None, past_calls: int) -> MakeCallId:
    """Returns what makes ids that the templates of a parser's models accept."""
    if parser is None:
        return lambda _name, _index: None
    return parser.call_ids(ToolParserContext(tools={}, past_calls=past_calls))


def completion_scopes(
    engine: ServingEngine,
    parsers: ChosenParsers,
    prompts: Sequence[Prompt],
    params: SamplingParams,
) -> Sequence[StopScope]:
    """Returns where stop strings count in the completion of each prompt.

    They do not in reasoning that the prompt or the text begins with a tag. The client
    gets that as part of the text.
    """
    if parsers.reasoning is None:
        return ()
    readings = [
        ReplyReading(
            reasoning=parsers.reasoning,
            prompt_end=_end_of(each, engine),
            is_structured=params.structured_outputs is not None,
            is_chat=False,
        )
        for each in prompts
    ]
    return [scope for each in readings for scope in each.stop_scopes(params)]


def _end_of(prompt: str | Sequence[int], engine: ServingEngine) -> str:
    end = prompt[-_PROMPT_TAIL:]
    if isinstance(end, str):
        return end
    found = b"".join(map(engine.texts.token_bytes, end))
    return found.decode("utf-8", "replace")


def can_reason_first(parsers: ChosenParsers, engine: ServingEngine) -> bool:
    """Returns whether a model may reason before what a grammar describes."""
    reasoning = parsers.reasoning
    return (
        reasoning is not None
        and reasoning.precedes_grammars
        and not engine.facts.enable_in_reasoning
    )
