"""The sampling of requests that are silent."""

from collections.abc import Mapping

import msgspec

from hookline.frozen import EMPTY


class SamplingDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What requests get where they are silent, as the model's makers recommend it.

    Attributes:
        values: Values of `SamplingParams`, by the names of their fields.
        most_tokens: Maximum of `max_tokens` of all requests; None sets none.
        source: The file or the option that they come from; empty for none.
    """

    values: Mapping[str, int | float] = EMPTY
    most_tokens: int | None = None
    source: str = ""


NO_DEFAULTS = SamplingDefaults()
