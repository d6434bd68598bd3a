"""`vllm_xargs`: a request's arguments for logits processors of plugins."""

import msgspec

from hookline.request_limits import EXTRA_ARGS_BYTES
from hookline_server.protocol.wire import Int64

Argument = bool | Int64 | float | str | list[bool | Int64 | float | str]


def check_extra_args(arguments: dict[str, Argument]) -> None:
    """Checks that the arguments are of reasonable size.

    Raises:
        LimitError: They are too large.
    """
    EXTRA_ARGS_BYTES.check(len(msgspec.json.encode(arguments)))
