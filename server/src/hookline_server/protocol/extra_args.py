"""`vllm_xargs`: a request's arguments for logits processors of plugins."""

import msgspec

from hookline.exceptions import RequestError
from hookline_server.protocol.wire import Int64

FIELD = "vllm_xargs"

MAX_BYTES = 64 * 1024
"""Maximum size as JSON."""

Argument = bool | Int64 | float | str | list[bool | Int64 | float | str]


def check_extra_args(arguments: dict[str, Argument]) -> None:
    """Checks that the arguments are of reasonable size.

    Raises:
        RequestError: They are too large.
    """
    if len(msgspec.json.encode(arguments)) > MAX_BYTES:
        reason = f"{FIELD} must not take more than {MAX_BYTES} bytes as JSON"
        raise RequestError(reason, param=FIELD)
