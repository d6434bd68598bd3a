"""A short hash that tells one engine configuration from another."""

import hashlib
from typing import TYPE_CHECKING

import msgspec

from hookline.frozen import plain

if TYPE_CHECKING:  # it is only read
    from hookline.config.engine import EngineConfig

_DIGITS = 12


def config_hash(config: "EngineConfig") -> str:
    """Returns a hash of an engine's options, but not of its index and its machine.

    It is equal for equal options, in every process and for every engine of a server.
    """
    shared = msgspec.to_builtins(config, enc_hook=plain)
    for name in ("engine_index", "engines_here", "sections", "server_indices"):
        del shared[name]
    del shared["cache"]["sibling_blocks"]
    text = msgspec.json.encode(shared, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:_DIGITS]
