"""Calls as JSON objects whose keys are the functions' names: Apertus."""

from hookline_server.reply_parsing.reader import Markers, Waits
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

_BEGIN, _END = "<|tools_prefix|>", "<|tools_suffix|>"
_BEGINS = Markers(_BEGIN)
_NAME_KEYS = ("name", "function")


class ApertusParser(SteppedToolParser):
    """`<|tools_prefix|>[{"f": {"a": 1}}, {"g": {}}]<|tools_suffix|>`."""

    control_tokens = (_BEGIN, _END)

    def steps(self) -> ToolSteps[None]:
        while (marker := (yield from self.content_until(_BEGINS))) is not None:
            has_calls = False
            while (name := (yield from self._name())) is not None:
                has_calls = True
                yield self.begin_call(name)
                yield from self.json_arguments()
                self.reader.record()
            if not has_calls:
                yield self.not_a_call(marker)
                continue
            if not (yield from self._end()):
                yield self.not_a_call("")

    def _name(self) -> Waits[str | None]:
        """Reads up to the arguments of the next call; None if there is none."""
        for text in ("[", "}", ",", "{"):
            yield from self.reader.skip_space()
            yield from self.reader.accept(text)
        yield from self.reader.skip_space()
        name = yield from self.reader.json_string()
        yield from self.reader.skip_space()
        if not name or not (yield from self.reader.accept(":")):
            return None
        yield from self.reader.skip_space()
        if name in _NAME_KEYS and (yield from self.reader.peek()) == '"':
            name = yield from self._named()
        is_call = (yield from self.reader.peek()) == "{"
        return name if is_call else None

    def _named(self) -> Waits[str | None]:
        """Reads a name that is a value, as others write it, up to the arguments."""
        name = self.known((yield from self.reader.json_string()) or "")
        for text in (",", '"arguments"', '"parameters"', ":"):
            yield from self.reader.skip_space()
            yield from self.reader.accept(text)
        yield from self.reader.skip_space()
        return name

    def _end(self) -> Waits[bool]:
        """Reads the end of the list; False if something else is there."""
        yield from self.reader.skip_space()
        is_list = yield from self.reader.accept("]")
        yield from self.reader.skip_space()
        is_end = yield from self.reader.accept(_END)
        return is_list or is_end or not (yield from self.reader.peek())
