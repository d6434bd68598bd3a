"""The commands that an engine core takes."""

import msgspec

from hookline.finish_cause import FinishCause
from hookline.request import EngineRequest


class Add(msgspec.Struct, frozen=True, tag=True):
    """Take this request in."""

    request: EngineRequest


class Finish(msgspec.Struct, frozen=True, tag=True):
    """End these requests."""

    request_ids: list[int]
    cause: FinishCause


class ResetPrefixCache(msgspec.Struct, frozen=True, tag=True):
    """Forget every reusable prefix."""


Command = Add | Finish | ResetPrefixCache
