"""Renders chat templates in a sandbox; those of others in text processes only.

The environment offers what templates expect of that of `transformers`, which takes ten
times as long to import.
"""

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from hookline.frozen import EMPTY
from hookline_server.texts.continuation import NothingToContinueError, cut, marked
from hookline_server.texts.system_messages import (
    Message,
    SystemPlace,
    allowed_place,
    arranged,
    has_late,
)

MAX_REASON_LENGTH = 1000
_MAX_PROBE_CHARS = 2**16
TEMPLATE_ERRORS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,  # such as RecursionError
    SyntaxError,  # such as more nested loops than Python compiles
    TypeError,
    ValueError,
)
"""What a template can raise that is its own fault or that of its input."""


class TemplateRefusedError(Exception):
    """The template raised an error."""


class OutputTooLongError(Exception):
    """The template's output exceeds its limit."""


class ChatTemplate:
    """A chat template, compiled when it is first used."""

    def __init__(self, source: str, variables: Mapping[str, object]) -> None:
        self._source = source
        self._variables = variables
        self._compiled: jinja2.Template | None = None
        self._place: SystemPlace | None = None

    def render(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        variables: Mapping[str, object] = EMPTY,
        add_generation_prompt: bool,
        continue_final_message: bool = False,
        max_chars: int,
    ) -> str:
        """Returns the conversation as a prompt.

        `variables` are further ones, such as `tools`; they cannot replace the
        tokenizer's special tokens, nor what the other arguments are. With
        `continue_final_message` the prompt ends with the text of the last message.
        System messages are moved where the template allows them.

        Raises:
            TemplateRefusedError: The template is invalid, rejects the messages, or
                leaves out the text to continue.
            OutputTooLongError: The prompt would exceed `max_chars` characters.
        """

        def rendered(place: SystemPlace) -> str:
            return self._rendered(
                {**variables, "add_generation_prompt": add_generation_prompt},
                arranged(messages, place),
                max_chars,
                continues=continue_final_message,
            )

        is_late = has_late(messages)
        place = self._system_place() if is_late else SystemPlace.ANYWHERE
        try:
            return rendered(place)
        except TemplateRefusedError:
            lower = self._lower_place(messages, place, is_late=is_late)
            if lower is None:
                raise
        return rendered(lower)

    def _lower_place(
        self, messages: Sequence[Message], tried: SystemPlace, *, is_late: bool
    ) -> SystemPlace | None:
        """Returns where the template may take the system messages that it refused."""
        if tried is not SystemPlace.ANYWHERE:
            return None
        if is_late:
            return SystemPlace.FIRST
        has_system = any(each.get("role") == "system" for each in messages)
        if has_system and self._system_place() is SystemPlace.NOWHERE:
            return SystemPlace.NOWHERE
        return None

    def _system_place(self) -> SystemPlace:
        if self._place is None:

            def render(messages: Sequence[Message]) -> str | None:
                given = {"add_generation_prompt": True}
                try:
                    return self._rendered(given, messages, _MAX_PROBE_CHARS)
                except (TemplateRefusedError, OutputTooLongError):
                    return None

            self._place = allowed_place(render)
        return self._place

    def _rendered(
        self,
        variables: Mapping[str, object],
        messages: Sequence[Message],
        max_chars: int,
        *,
        continues: bool = False,
    ) -> str:
        given = {
            "tools": None,
            "documents": None,
            **variables,
            **self._variables,
            "messages": messages,
        }
        try:
            if self._compiled is None:
                self._compiled = _environment().from_string(self._source)
            if not continues:
                return _bounded(self._compiled, given, max_chars)
            given["messages"] = marked(messages)
            return cut(_bounded(self._compiled, given, max_chars), messages)
        except NothingToContinueError as error:
            reason = "it leaves out the text of the final message, or changes it"
            raise TemplateRefusedError(reason) from error
        except TEMPLATE_ERRORS as error:
            reason = str(error) or type(error).__name__
            raise TemplateRefusedError(reason[:MAX_REASON_LENGTH]) from error


def syntax_error(source: str) -> str | None:
    """Returns what is wrong with a template, and in which line; None if nothing is."""
    try:
        _environment().from_string(source)
    except jinja2.TemplateSyntaxError as error:
        return f"line {error.lineno}: {error.message}"
    except TEMPLATE_ERRORS as error:
        return str(error) or type(error).__name__
    return None


def _bounded(
    template: jinja2.Template, variables: Mapping[str, object], max_chars: int
) -> str:
    parts: list[str] = []
    size = 0
    for part in template.generate(**variables):
        size += len(part)
        if size > max_chars:
            raise OutputTooLongError
        parts.append(part)
    return "".join(parts)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals.update(
        raise_exception=_raise_exception,
        strftime_now=_strftime_now,
        dict=_Dictionary(),
        namespace=_Namespace,
    )
    return environment


class _Generation(Extension):
    """Renders what `{% generation %}` encloses; the tag marks a model's own tokens."""

    tags = {"generation"}  # noqa: RUF012 - declared so by jinja2

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


class _Dictionary:
    """`dict` without the attributes of a class."""

    def __call__(self, *args: Any, **kwargs: object) -> object:
        return dict(*args, **kwargs)


class _Namespace(jinja2.utils.Namespace):
    """`namespace`, which takes no names with a leading underscore."""

    def __init__(*args: Any, **kwargs: object) -> None:
        self, *others = args
        assert isinstance(self, _Namespace)
        values: dict[str, object] = dict(*others, **kwargs)
        for name in values:
            _check_name(name)
        jinja2.utils.Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: object) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(
            f"a namespace cannot have the attribute {name!r}"
        )


def _raise_exception(message: object) -> NoReturn:
    raise jinja2.TemplateError(str(message))


def _strftime_now(pattern: str) -> str:
    local = dt.datetime.now().astimezone().replace(tzinfo=None)
    return local.strftime(pattern)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Returns JSON; the filter of jinja2 itself escapes HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
