"""Options of the response store."""

from dataclasses import dataclass

from hookline.config.options import option
from hookline.config.readers import read_size

MEBIBYTE = 1024 * 1024
DAY_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseStoreSettings:
    """How many responses of `/v1/responses` are kept, and for how long."""

    max_stored_responses: int = option(
        "Maximum number of responses of /v1/responses that are kept, to be "
        "continued or read again; 0 keeps none.",
        default=1024,
        metavar="RESPONSES",
        minimum=0,
    )
    response_store_bytes: int = option(
        "Maximum memory of kept responses, their input included; 0 keeps none.",
        default=64 * MEBIBYTE,
        metavar="SIZE",
        minimum=0,
        read=read_size,
    )
    response_store_seconds: float = option(
        "Time that a response is kept after it was last continued or read.",
        default=DAY_SECONDS,
        metavar="SECONDS",
        above=0,
    )

    @property
    def is_enabled(self) -> bool:
        """Whether responses are kept at all."""
        return self.max_stored_responses > 0 and self.response_store_bytes > 0
