"""`kv_transfer_params`: what KV connectors of two engines tell each other by clients.

Requests and answers carry them, with the name and in the places of vLLM; what is in
them only the connectors know.
"""

import msgspec
from msgspec import UnsetType

from hookline.exceptions import RequestError

FIELD = "kv_transfer_params"

MAX_BYTES = 1024 * 1024
"""As JSON; room for the numbers of 100,000 blocks."""

MAX_DEPTH = 16

TransferParams = dict[str, object] | UnsetType
"""In an answer; not there at all where a connector has nothing to tell."""


def check_transfer_params(params: dict[str, object]) -> None:
    """Refuses what could not be carried to an engine, or would be a burden to it.

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
