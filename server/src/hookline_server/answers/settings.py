"""Options of what the responses of completions and chats contain besides text."""

from dataclasses import dataclass, field
from enum import StrEnum

from hookline.config.options import option


class SpecDecodeMetrics(StrEnum):
    """What responses say of speculative decoding."""

    NONE = "none"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSettings:
    """Optional fields of responses, off by default."""

    enable_per_request_metrics: bool = field(
        default=False,
        metadata=option("Report in responses how long each phase of the request took."),
    )
    per_request_spec_decode_metrics: SpecDecodeMetrics = field(
        default=SpecDecodeMetrics.NONE,
        metadata=option(
            "What responses report about the accepted drafts of the request."
        ),
    )
    finish_reason_with_last_token: bool = field(
        default=False,
        metadata=option(
            "Streamed chats have the finish reason in the chunk of the last text, not "
            "in a further one without text."
        ),
    )


DEFAULT_RESPONSES = ResponseSettings()
