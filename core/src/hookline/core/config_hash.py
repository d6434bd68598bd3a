"""A short hash that tells one engine configuration from another."""

import dataclasses
import hashlib

import msgspec

from hookline.config.engine import EngineConfig
from hookline.config.machines import MachinesConfig
from hookline.frozen import plain

_DIGITS = 12


def config_hash(config: EngineConfig) -> str:
    """Returns a hash of all options except the engine's index and its machine.

    It is equal for equal options, in every process and for every engine of a server.
    """
    shared = dataclasses.replace(
        config,
        engine_index=0,
        machines=MachinesConfig(),
        cache=dataclasses.replace(config.cache, sibling_blocks=None),
    )
    text = msgspec.json.encode(shared, enc_hook=plain, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:_DIGITS]
