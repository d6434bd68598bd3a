"""Options of what the responses of completions and chats contain besides text."""

from dataclasses import dataclass
from enum import StrEnum

from hookline.config.options import option
from hookline.exceptions import ConfigError


class SpecDecodeMetrics(StrEnum):
    """What responses say of speculative decoding."""

    NONE = "none"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSettings:
    """Optional fields of responses, off by default."""

    enable_per_request_metrics: bool = option(
        "Report in responses how long each phase of the request took.", default=False
    )
    per_request_spec_decode_metrics: SpecDecodeMetrics = option(
        "What responses report about the accepted drafts of the request.",
        default=SpecDecodeMetrics.NONE,
    )
    finish_reason_with_last_token: bool = option(
        "Streamed chats have the finish reason in the chunk of the last text, not "
        "in a further one without text.",
        default=False,
    )
    response_role: str = option("Role of the messages in chats.", default="assistant")
    return_tokens_as_token_ids: bool = option(
        "Log-probabilities name tokens token_id:NUMBER by default.",
        default=False,
    )
    enable_force_include_usage: bool = option(
        "Streams always end with the usage.", default=False
    )

    def __post_init__(self) -> None:
        if not self.response_role:
            raise ConfigError("response-role", "must not be empty")


DEFAULT_RESPONSES = ResponseSettings()
