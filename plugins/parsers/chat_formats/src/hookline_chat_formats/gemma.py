"""Calls in braces after a control token: Gemma 4 and FunctionGemma."""

import re
from dataclasses import dataclass
from functools import partial

from hookline_chat_formats.braced_values import BracedArguments
from hookline_chat_formats.json_calls import json_calls
from hookline_server.reply_parsing.parts import Repair
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_NAME = re.compile(r"[\w.:-]+")
_NAME_ENDS = Markers("{", "(")


@dataclass(frozen=True, slots=True, kw_only=True)
class BraceTags:
    """The control tokens of one format.

    Attributes:
        opens: Begins a call.
        closes: Ends a call.
        delimiter: Begins and ends a text among the arguments.
        others: What may follow calls and contents.
    """

    opens: str
    closes: str
    delimiter: str
    others: tuple[str, ...]


_GEMMA4 = BraceTags(
    opens="<|tool_call>",
    closes="<tool_call|>",
    delimiter='<|"|>',
    others=("<turn|>", "<|tool_response>", "<eos>"),
)


class GemmaParser(SteppedToolParser):
    """`<|tool_call>call:f{city:<|"|>Paris<|"|>,days:3}<tool_call|>`.

    At the start of a reply a call needs no token, but the name of one of the request's
    functions.
    """

    def __init__(self, context: ToolParserContext, tags: BraceTags = _GEMMA4) -> None:
        super().__init__(context)
        self._tags = tags
        self.frames = tags.others
        self.control_tokens = (tags.opens, tags.closes, tags.delimiter)
        self._begins = Markers(tags.opens, *tags.others)

    def steps(self) -> ToolSteps[None]:
        self.reader.record()
        if not (yield from self._call(is_bare=True)):
            yield self.not_a_call("")
        while (marker := (yield from self.content_until(self._begins))) is not None:
            if not (yield from self._call(is_bare=False)):
                yield self.not_a_call(marker)

    def _call(self, *, is_bare: bool) -> ToolSteps[bool]:
        """Reads a call; `call` itself may be missing behind the token."""
        yield from self.reader.skip_space()
        if not is_bare and (yield from self.reader.is_at("{")):
            return (yield from self._json())
        if not (yield from self.reader.accept("call")) and is_bare:
            return False
        if not (yield from self.reader.accept(":")):
            return False
        name = yield from self.reader.before(_NAME_ENDS)
        if name is None or not _NAME.fullmatch(name := name.strip()):
            return False
        if is_bare and name not in self.tools:
            return False
        is_round = yield from self.reader.accept("(")
        is_braced = yield from self.reader.accept("{")
        yield self.begin_call(name)
        tags = self._tags
        arguments = BracedArguments(
            self,
            self.tools.get(name, {}),
            delimiter=tags.delimiter,
            ends=(tags.closes, *tags.others),
            closer="}" if is_braced else ")",
        )
        yield from arguments.steps()
        for rest in (")", tags.closes) if is_round and is_braced else (tags.closes,):
            yield from self.reader.skip_space()
            yield from self.reader.accept(rest)
        return True

    def _json(self) -> ToolSteps[bool]:
        """Reads a call as most models write it, of one of the request's functions."""
        if not (yield from json_calls(self, names=self.tools)):
            return False
        yield Repair("dialect")
        yield from self.reader.skip_space()
        yield from self.reader.accept(self._tags.closes)
        return True


FunctionGemmaParser = partial(
    GemmaParser,
    tags=BraceTags(
        opens="<start_function_call>",
        closes="<end_function_call>",
        delimiter="<escape>",
        others=("<start_function_response>", "<end_of_turn>"),
    ),
)
