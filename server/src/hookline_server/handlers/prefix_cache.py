"""`POST /reset_prefix_cache`, served where it is enabled."""

import msgspec
from aiohttp import web

from hookline_metrics.transfer_calls import TierReset, reset_command, tiers_of
from hookline_server.handlers.admission import ready_engine
from hookline_server.handlers.common import json_response
from hookline_server.openapi.operation import (
    ADMINISTRATION_ERRORS,
    Operation,
    Tag,
    described,
)
from hookline_server.protocol.wire import convert_query


class ResetQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a reset drops, by vLLM's names.

    Attributes:
        reset_running_requests: Whether running requests lose their KV, too, and compute
            it again.
        reset_external: Whether the tiers of a KV connector are emptied: all if true,
            none if false, and by default those that other servers do not share.
    """

    reset_running_requests: bool = False
    reset_external: bool | None = None


class Reset(msgspec.Struct, frozen=True):
    """Answer to a reset.

    Attributes:
        status: `reset`.
        success: Whether every engine has dropped all that was asked for.
        tiers: What was done to each tier: `device` is the engine's own cache, others
            are those of a KV connector. `kept` ones still answer look-ups.
    """

    status: str
    success: bool
    tiers: dict[str, TierReset]


@described(
    Operation(
        tag=Tag.ADMINISTRATION,
        query=ResetQuery,
        answer=Reset,
        errors=(400, *ADMINISTRATION_ERRORS),
    )
)
async def reset_prefix_cache(request: web.Request) -> web.Response:
    """Drops all cached prefixes that no running request holds."""
    query = convert_query(request.query, ResetQuery)
    command = reset_command(
        reset_running_requests=query.reset_running_requests,
        external=query.reset_external,
    )
    tiers = tiers_of(await ready_engine(request).call(command))
    success = TierReset.FAILED not in tiers.values()
    return json_response(Reset("reset", success=success, tiers=tiers))
