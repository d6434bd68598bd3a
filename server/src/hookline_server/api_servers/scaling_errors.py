"""Why the parent did not change the number of engines, as API servers are told."""

from typing import Literal

import msgspec

from hookline.exceptions import (
    ConfigError,
    EngineDeadError,
    HooklineError,
    RequestError,
)
from hookline_server.engine_number import (
    DrainTimeoutError,
    ScalingBusyError,
    StartFailedError,
)

ScalingError = (
    RequestError
    | ConfigError
    | ScalingBusyError
    | StartFailedError
    | DrainTimeoutError
    | EngineDeadError
)


class ScalingRefused(msgspec.Struct, frozen=True, tag=True):
    """The error of a change of the number of engines.

    Attributes:
        kind: Which error.
        text: Its reason.
        subject: The option or the field that it names.
        engines: The engines that it names.
        seconds: The time that it names.
    """

    kind: Literal["request", "config", "busy", "start", "drain", "dead"]
    text: str = ""
    subject: str | None = None
    engines: tuple[int, ...] = ()
    seconds: float = 0.0


def refusal_of(error: ScalingError) -> ScalingRefused:
    """Returns what an API server is told of an error."""
    match error:
        case ConfigError():
            return ScalingRefused("config", error.detail, error.option)
        case ScalingBusyError():
            return ScalingRefused("busy", str(error))
        case StartFailedError():
            return ScalingRefused("start", error.reason)
        case EngineDeadError():
            return ScalingRefused("dead", error.reason)
        case DrainTimeoutError(engines=engines, timeout_seconds=seconds):
            return ScalingRefused("drain", engines=engines, seconds=seconds)
        case RequestError():
            return ScalingRefused("request", str(error), error.param)


def error_of(refused: ScalingRefused) -> HooklineError:
    """Returns the error of which an API server is told."""
    text = refused.text
    match refused.kind:
        case "config":
            return ConfigError(refused.subject or "", text)
        case "busy":
            return ScalingBusyError(text)
        case "start":
            return StartFailedError(text)
        case "dead":
            return EngineDeadError(text)
        case "drain":
            return DrainTimeoutError(refused.engines, refused.seconds)
        case "request":
            return RequestError(text, param=refused.subject)
