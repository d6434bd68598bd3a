"""`kv_transfer_params`: data that KV connectors of two engines exchange via clients.

Requests and responses carry them under vLLM's name and in vLLM's places; their content
is up to the connectors.
"""

import msgspec
from msgspec import UnsetType

from hookline.request_limits import TRANSFER_BYTES, TRANSFER_DEPTH
from hookline_server.protocol.body_structure import depth

FIELD = "kv_transfer_params"

TransferParams = dict[str, object] | UnsetType
"""The response's field; omitted if the connector returned nothing."""


def check_transfer_params(params: dict[str, object]) -> None:
    """Checks that the parameters can be sent to an engine and are of reasonable size.

    Raises:
        LimitError: They are nested too deeply, or too large.
    """
    data = msgspec.json.encode(params)
    TRANSFER_BYTES.check(len(data))
    TRANSFER_DEPTH.check(depth(data, TRANSFER_DEPTH.most + 1))
