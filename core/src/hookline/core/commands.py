"""The commands that an engine core takes."""

import msgspec

from hookline.request import EngineRequest, FinishReason


class Add(msgspec.Struct, frozen=True, tag=True):
    """Take this request in."""

    request: EngineRequest


class Finish(msgspec.Struct, frozen=True, tag=True):
    """End these requests."""

    request_ids: list[int]
    reason: FinishReason
    cause: str


class ResetPrefixCache(msgspec.Struct, frozen=True, tag=True):
    """Forget every reusable prefix."""


Command = Add | Finish | ResetPrefixCache
