"""`kv_transfer_params`: data that KV connectors of two engines exchange via clients.

Requests and responses carry them under vLLM's name and in vLLM's places; their content
is up to the connectors.
"""

from collections.abc import Mapping

import msgspec
from msgspec import UnsetType

from hookline.exceptions import PromptTooLongError
from hookline.request_limits import TRANSFER_BYTES, TRANSFER_DEPTH
from hookline_server.protocol.body_structure import depth

FIELD = "kv_transfer_params"

TransferParams = dict[str, object] | UnsetType
"""The response's field; omitted if the connector returned nothing."""


_LONGEST = "remote_max_model_len"
"""Maximum tokens of a sequence in the instance that continues the prompt."""


def check_remote_length(params: Mapping[str, object], prompt_tokens: int) -> None:
    """Checks that a prompt fits where it is continued, before it is computed here.

    Raises:
        PromptTooLongError: It does not.
    """
    longest = params.get(_LONGEST)
    if type(longest) is int and prompt_tokens >= longest > 0:
        raise PromptTooLongError(prompt_tokens, longest)


def check_transfer_params(params: dict[str, object]) -> None:
    """Checks that the parameters can be sent to an engine and are of reasonable size.

    Raises:
        LimitError: They are nested too deeply, or too large.
    """
    data = msgspec.json.encode(params)
    TRANSFER_BYTES.check(len(data))
    TRANSFER_DEPTH.check(depth(data, TRANSFER_DEPTH.most + 1))
