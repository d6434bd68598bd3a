"""A grammar as backends compile it."""

import hashlib

import msgspec

from hookline.structured_outputs import GrammarKind, StructuredOutputsParams

REFUSED = "invalid_grammar"
"""Error code of requests whose grammar cannot be compiled or followed."""


class GrammarSpec(msgspec.Struct, frozen=True, array_like=True):
    """A grammar as a backend compiles it.

    Attributes:
        kind: The kind of `source`.
        source: The schema or structural tag as JSON, the regular expression, the EBNF,
            or a JSON list of choices; empty for `json_object`.
        any_whitespace: Whether JSON may have whitespace between its tokens.
        additional_properties: Whether objects whose schema does not say so may have
            properties that it does not name.
        whitespace_pattern: Regular expression of that whitespace; None leaves it to the
            backend.
        loose: Pointers to schemas in the source that may be loosened.
    """

    kind: GrammarKind
    source: str
    any_whitespace: bool = True
    additional_properties: bool = True
    whitespace_pattern: str | None = None
    loose: tuple[str, ...] = ()

    @property
    def key(self) -> bytes:
        """Identifies the grammar among all others: 32 bytes."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).digest()


def spec_of(params: StructuredOutputsParams) -> GrammarSpec:
    """Returns what the text of a request has to match, for a backend."""
    kind = params.kind
    if kind is GrammarKind.CHOICE:
        source = msgspec.json.encode(params.choice).decode()
    else:
        source = "" if kind is GrammarKind.JSON_OBJECT else getattr(params, kind)
    return GrammarSpec(
        kind,
        source,
        not params.disable_any_whitespace,
        not params.disable_additional_properties,
        params.whitespace_pattern,
        params.loose,
    )
