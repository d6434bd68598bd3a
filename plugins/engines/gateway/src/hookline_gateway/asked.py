"""What a gateway reads of a request's body: the model, and how it is answered."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import msgspec
from aiohttp import hdrs, web

from hookline.sampling_values import SamplingValues

_NONE = msgspec.Raw(b"null")


class _Fields(msgspec.Struct):
    model: msgspec.Raw = _NONE
    stream: msgspec.Raw = _NONE
    n: msgspec.Raw = _NONE
    max_tokens: msgspec.Raw = _NONE
    max_completion_tokens: msgspec.Raw = _NONE
    temperature: msgspec.Raw = _NONE
    top_p: msgspec.Raw = _NONE


_UNKNOWN = SamplingValues(max_tokens=None)

_decode = msgspec.json.Decoder(_Fields).decode
_decode_name = msgspec.json.Decoder(str).decode
_decode_number: Callable[[msgspec.Raw], float | None] = msgspec.json.Decoder(
    float | None
).decode


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a model.

    Attributes:
        model: The model's name; empty if it names none.
        is_streamed: Whether the answer is to be a stream.
        fields: What of its body is known; None for nothing.
    """

    model: str = ""
    is_streamed: bool = False
    fields: _Fields | None = None

    @classmethod
    def read(cls, request: web.Request, body: bytes) -> Self:
        """Reads a body, which may be anything."""
        kind = request.headers.get(hdrs.CONTENT_TYPE, "")
        if not body or "json" not in kind.partition(";")[0].lower():
            return cls()
        try:
            fields = _decode(body)
            name = bytes(fields.model)
            model = _decode_name(name) if name.startswith(b'"') else ""
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return cls()
        return cls(model, bytes(fields.stream) == b"true", fields)

    def params(self) -> SamplingValues:
        """Returns its parameters, as far as loggers tell them."""
        return _UNKNOWN if self.fields is None else _params(self.fields)


def _params(fields: _Fields) -> SamplingValues:
    longest = _number(fields.max_tokens)
    if longest is None:
        longest = _number(fields.max_completion_tokens)
    temperature, top_p = _number(fields.temperature), _number(fields.top_p)
    return SamplingValues(
        n=int(_number(fields.n) or 1),
        max_tokens=None if longest is None else int(longest),
        temperature=1.0 if temperature is None else temperature,
        top_p=1.0 if top_p is None else top_p,
    )


def _number(raw: msgspec.Raw) -> float | None:
    if raw is _NONE:
        return None
    try:
        return _decode_number(raw)
    except msgspec.MsgspecError:
        return None
