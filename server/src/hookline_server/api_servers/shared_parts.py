"""What one of several API servers has in common with the others."""

from collections.abc import Callable
from dataclasses import dataclass

from hookline_server.api_servers.share import Share
from hookline_server.auth.allowance import Allowance
from hookline_server.auth.key import ApiKey
from hookline_server.engine_number import EngineNumber
from hookline_server.kept_responses import KeptResponses

AllowanceOf = Callable[[ApiKey, str | None], Allowance]
"""Returns what a request of a key and of a certain tenant draws on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedParts:
    """Parts of a server that all servers on its port share.

    Attributes:
        share: What each has open.
        responses: The stored responses.
        allowance_of: The budgets of keys and tenants.
        scaling: The number of engines.
    """

    share: Share
    responses: KeptResponses
    allowance_of: AllowanceOf
    scaling: EngineNumber
