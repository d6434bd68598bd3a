"""`DELETE /v1/kv_transfers/{transfer_id}`: nobody will fetch what is kept."""

import msgspec
from aiohttp import web

from hookline_metrics.transfer_calls import release_command, released_blocks
from hookline_server.api_error import ApiError
from hookline_server.auth.permissions import check_transfer_permission
from hookline_server.handlers.admission import ready_engine
from hookline_server.handlers.common import json_response
from hookline_server.openapi.operation import (
    ADMINISTRATION_ERRORS,
    Operation,
    Tag,
    described,
)


class ReleasedTransfer(msgspec.Struct, frozen=True):
    """Answer to a release.

    Attributes:
        id: The transfer.
        released_blocks: Number of KV blocks that were kept for it.
    """

    id: str
    released_blocks: int


@described(
    Operation(
        tag=Tag.GENERATION,
        answer=ReleasedTransfer,
        errors=(403, 404, *ADMINISTRATION_ERRORS),
    )
)
async def release_transfer(request: web.Request) -> web.Response:
    """Frees the KV that is kept for another server under this `transfer_id`.

    It may come before the end of the request, of which nothing is kept then.
    """
    check_transfer_permission(request)
    transfer_id = request.match_info["transfer_id"]
    replies = await ready_engine(request).call(release_command(transfer_id))
    released = released_blocks(replies)
    if released is None:
        raise ApiError(404, "the server has no KV connector", code="no_kv_connector")
    return json_response(ReleasedTransfer(transfer_id, released))
