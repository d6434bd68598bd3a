"""`kv_transfer_params`: data that KV connectors of two engines exchange via clients.

Requests and responses carry them under vLLM's name and in vLLM's places; their content
is up to the connectors.
"""

import msgspec
from msgspec import UnsetType

from hookline.exceptions import RequestError

FIELD = "kv_transfer_params"

MAX_BYTES = 1024 * 1024
"""Maximum size as JSON; enough for the ids of 100,000 blocks."""

MAX_DEPTH = 16

TransferParams = dict[str, object] | UnsetType
"""The response's field; omitted if the connector returned nothing."""


def check_transfer_params(params: dict[str, object]) -> None:
    """Checks that the parameters can be sent to an engine and are of reasonable size.

    Raises:
        RequestError: They are nested too deeply, or too large.
    """
    if _is_deeper(params, MAX_DEPTH):
        reason = f"must not be nested deeper than {MAX_DEPTH} levels"
    elif len(msgspec.json.encode(params)) > MAX_BYTES:
        reason = f"must not take more than {MAX_BYTES} bytes as JSON"
    else:
        return
    raise RequestError(f"{FIELD} {reason}", param=FIELD)


def _is_deeper(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in value)
