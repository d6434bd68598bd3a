"""The variables that a request passes to the chat template besides its messages."""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from hookline.exceptions import RequestError
from hookline.frozen import EMPTY
from hookline.request_limits import DOCUMENTS, TEMPLATE_BYTES, TEMPLATE_DEPTH
from hookline_server.protocol.body_structure import depth
from hookline_server.protocol.tools import Tool
from hookline_server.protocol.wire import convert

REASONING_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

RESERVED = frozenset(
    {
        # What the server passes itself.
        "add_generation_prompt",
        "continue_final_message",
        "documents",
        "messages",
        "tools",
        # Arguments of `transformers` that select or change more than the template's
        # text.
        "chat_template",
        "conversation",
        "max_length",
        "padding",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "tokenize",
        "tokenizer_kwargs",
        "truncation",
        # Functions of the template's environment.
        "cycler",
        "dict",
        "joiner",
        "lipsum",
        "namespace",
        "raise_exception",
        "range",
        "strftime_now",
        # Special tokens; those with a name that ends with `_token` are, too.
        "additional_special_tokens",
    }
)
"""Names that `chat_template_kwargs` must not contain."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


class TemplateFields(Protocol):
    """The fields of a request that become template variables."""

    @property
    def chat_template_kwargs(self) -> dict[str, object] | None: ...
    @property
    def documents(self) -> list[object] | None: ...
    @property
    def reasoning_effort(self) -> str | None: ...


def template_variables(
    request: TemplateFields,
    tools: Sequence[Tool],
    defaults: Mapping[str, object] = EMPTY,
) -> dict[str, object]:
    """Returns the further variables of the template.

    Args:
        request: The request.
        tools: The functions that the model is told of.
        defaults: Arguments for requests that do not set them.

    Raises:
        LimitError: They are too many, too large or nested too deeply.
        RequestError: One has a reserved name or an invalid value.
    """
    variables = {**defaults, **_effort(request.reasoning_effort)}
    if request.chat_template_kwargs:
        variables |= _arguments(request.chat_template_kwargs)
    if tools:
        variables["tools"] = [tool.for_template() for tool in tools]
    if request.documents:
        variables["documents"] = _documents(request.documents)
    return variables


def check_arguments(arguments: Mapping[str, object], field: str) -> None:
    """Checks names and sizes of a template's arguments.

    Raises:
        LimitError: They are too large, or nested too deeply.
        RequestError: A name is reserved, or is not a valid variable name.
    """
    _check_sizes(arguments, field)
    for name in arguments:
        if not _NAME.fullmatch(name):
            raise RequestError(
                f"{field}: {name[:64]!r} is not the name of a variable", param=field
            )
        if name in RESERVED or name.endswith("_token"):
            raise RequestError(
                f"{field}.{name} is reserved: a request cannot set it",
                param=f"{field}.{name}",
            )


def _arguments(given: dict[str, object]) -> dict[str, object]:
    check_arguments(given, "chat_template_kwargs")
    return given


def _effort(given: str | None) -> dict[str, object]:
    if given is None:
        return {}
    if given not in REASONING_EFFORTS:
        raise RequestError(
            f"reasoning_effort must be one of {', '.join(REASONING_EFFORTS)}, not "
            f"{given[:64]!r}",
            param="reasoning_effort",
        )
    # Templates that can switch reasoning off use one of these names.
    switches = {"enable_thinking": False, "thinking": False} if given == "none" else {}
    return {"reasoning_effort": given, **switches}


def _check_sizes(given: object, field: str) -> None:
    data = msgspec.json.encode(given)
    TEMPLATE_BYTES.check(len(data), param=field)
    TEMPLATE_DEPTH.check(depth(data, TEMPLATE_DEPTH.most + 1), param=field)


def _documents(given: Sequence[object]) -> list[dict[str, object]]:
    DOCUMENTS.check(len(given))
    _check_sizes(given, "documents")
    return [
        convert(each, dict[str, object], f"documents[{index}]")
        for index, each in enumerate(given)
    ]
