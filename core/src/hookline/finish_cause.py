"""Causes of a request's end, each with its details."""

from typing import ClassVar, Self

import msgspec

from hookline.request import FinishReason, Origin


class _Cause(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base class of the causes.

    Attributes:
        reason: The coarse reason, for clients and metrics.
    """

    reason: ClassVar[FinishReason]

    @property
    def label(self) -> str:
        """A short text for logs and metric labels; empty if `reason` suffices."""
        return ""


class StoppedByToken(_Cause, frozen=True, tag="token"):
    """The model generated a stop token."""

    reason = FinishReason.STOP

    token_id: int

    @property
    def label(self) -> str:
        return str(self.token_id)


class StoppedByString(_Cause, frozen=True, tag="string"):
    """The generated text contained a stop string."""

    reason = FinishReason.STOP

    text: str

    @property
    def label(self) -> str:
        return self.text


class LengthReached(_Cause, frozen=True, tag="length"):
    """The output reached `max_tokens` or the model's maximum length."""

    reason = FinishReason.LENGTH


class Embedded(_Cause, frozen=True, tag="embedded"):
    """All of the prompt is computed and pooled, and nothing was to be generated."""

    reason = FinishReason.STOP


class Aborted(_Cause, frozen=True, tag="aborted"):
    """Something other than the request itself ended it early.

    Attributes:
        by: Source of the abort, such as `client_disconnect`.
    """

    reason = FinishReason.ABORT

    by: str

    @property
    def label(self) -> str:
        return self.by


class TimedOut(_Cause, frozen=True, tag="timed_out"):
    """The request's deadline passed; what it has generated is its output."""

    reason = FinishReason.TIMEOUT


class Failed(_Cause, frozen=True, tag="failed"):
    """The engine could not finish the request.

    Attributes:
        detail: Description of the failure.
    """

    reason = FinishReason.ERROR

    detail: str

    @property
    def label(self) -> str:
        return self.detail


class Corrupted(Failed, frozen=True, tag="corrupted"):
    """The request's tokens depend on what is not finite, or is no token.

    Attributes:
        origin: Whose output it was.
        is_served: Whether the request goes on nevertheless.
    """

    origin: Origin
    is_served: bool = False

    @classmethod
    def logits(cls, origin: Origin, *, is_served: bool = False) -> Self:
        """Tells whose logits are not finite."""
        whose = origin.value.replace("_", " ")
        return cls(f"the {whose} gave logits that are not finite", origin, is_served)


class Rejected(_Cause, frozen=True, tag="rejected"):
    """The request was refused before it reached the engine.

    Attributes:
        kind: Error code from a small fixed set, such as `context_length_exceeded`.
        message: The error message that the client got, possibly cut; without what looks
            like a key, and without what may quote a prompt.
        limit: Name of the limit that it exceeded, from `request_limits`; or empty.
    """

    reason = FinishReason.REJECTED

    kind: str
    message: str
    limit: str = ""

    @property
    def label(self) -> str:
        return self.kind


FinishCause = (
    StoppedByToken
    | StoppedByString
    | LengthReached
    | Embedded
    | Aborted
    | TimedOut
    | Failed
    | Corrupted
    | Rejected
)
