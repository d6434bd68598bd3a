"""A compiled grammar, as it goes with its request to the workers."""

import msgspec

from hookline.config.extensions import GRAMMARS
from hookline.sections import Section


class CompiledGrammar(msgspec.Struct, frozen=True, array_like=True):
    """A compiled grammar, which the backend that compiled it can read.

    Attributes:
        key: The specification's key.
        data: The backend's bytes.
        backend: Index of that backend among those of the engine.
    """

    key: bytes
    data: bytes
    backend: int = 0


GRAMMAR = Section(GRAMMARS, CompiledGrammar)
"""The grammar of a request."""
