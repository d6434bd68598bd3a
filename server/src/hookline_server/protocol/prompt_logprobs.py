"""Log-probabilities of a prompt's tokens in responses."""

from typing import Annotated

import msgspec

from hookline_server.protocol.schema_notes import HELD, REFERENCE


class PromptLogprob(msgspec.Struct, frozen=True, gc=False):
    """A token at a position of the prompt, in vLLM's format."""

    logprob: float
    rank: int
    decoded_token: str


HELD[PromptLogprob.__name__] = PromptLogprob
_POSITION: dict[str, object] = {
    "description": "Tokens at a position, keyed by their ids; null for the first.",
    "type": ["object", "null"],
    "additionalProperties": {"$ref": REFERENCE.format(name=PromptLogprob.__name__)},
}

PromptLogprobsJson = Annotated[
    msgspec.Raw,
    msgspec.Meta(extra_json_schema={"type": "array", "items": _POSITION}),
]
"""The log-probabilities at each position, already encoded as JSON."""
