"""Checks the types of a request whose values come from Python code of others."""

from collections.abc import Mapping
from typing import get_type_hints

import msgspec
from msgspec import defstruct
from msgspec.structs import fields as fields_of

from hookline.exceptions import RequestError
from hookline.frozen import frozen_json, plain
from hookline.request import GenerateRequest, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.sections import Sections


def _unchecked(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Returns a struct with the fields of another, which does not check its values."""
    hints = get_type_hints(kind, include_extras=True)
    fields = [(each.name, hints[each.name], each.default) for each in fields_of(kind)]
    return defstruct(kind.__name__, fields)


_Sent = defstruct(
    "_Sent",
    [
        ("params", _unchecked(SamplingParams)),  # they have been checked
        ("facts", RequestFacts),
        ("cache_salt", str | None),
        ("sections", Sections),
    ],
)
"""What a `GenerateRequest` has of its caller, with the same names."""
_encode = msgspec.msgpack.Encoder(enc_hook=plain).encode
_decode = msgspec.msgpack.Decoder(_Sent).decode


def check_types(request: GenerateRequest) -> None:
    """Checks types as sending a request would, for callers whose values are not typed.

    Raises:
        RequestError: An engine could not read the request.
    """
    sections = request.sections
    try:
        for section in sections.values():
            if isinstance(section, Mapping):
                frozen_json(section)  # as the extension may do
        _decode(
            _encode(_Sent(request.params, request.facts, request.cache_salt, sections))
        )
    except (
        msgspec.MsgspecError,
        TypeError,
        ValueError,
        OverflowError,
        NotImplementedError,
        RecursionError,
    ) as error:
        raise RequestError(f"the request is malformed: {error}") from error
