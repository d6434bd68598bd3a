"""What an API server asks of the parent, which keeps what all servers share."""

import msgspec

from hookline_server.api_servers.scaling_errors import ScalingRefused
from hookline_server.auth.budget import Exceeded
from hookline_server.engine_number import ScalingReport, ScalingState
from hookline_server.response_store import Owner, StoredResponse


class Keep(msgspec.Struct, frozen=True, tag=True):
    """Keeps a response."""

    entry: StoredResponse


class Chain(msgspec.Struct, frozen=True, tag=True):
    """Asks for a response and those that it continues: `Found`."""

    owner: Owner
    response_id: str


class Holder(msgspec.Struct, frozen=True, tag=True):
    """Asks for the response that contains an item: `Found`."""

    owner: Owner
    item_id: str


class Delete(msgspec.Struct, frozen=True, tag=True):
    """Deletes a response: `Deleted`."""

    owner: Owner
    response_id: str


class Draw(msgspec.Struct, frozen=True, tag=True):
    """Asks whether a request fits into its budgets, and counts it as open: `Drawn`.

    Attributes:
        key: Id of its key, if that has limits.
        tenant: Its tenant, if that is certain.
    """

    key: str | None
    tenant: str | None


class Scale(msgspec.Struct, frozen=True, tag=True):
    """Brings the engines to a number: `Scaled` or `ScalingRefused`, in the end."""

    number: int
    drain_seconds: float


class LookAtScale(msgspec.Struct, frozen=True, tag=True):
    """Asks for the engines and what becomes of their number: `ScaleSeen`."""


class Charge(msgspec.Struct, frozen=True, tag=True):
    """Takes tokens from the budgets of an open request.

    Attributes:
        number: Number of its `Draw`.
    """

    number: int
    tokens: int


class EndDraw(msgspec.Struct, frozen=True, tag=True):
    """A request is no longer open.

    Attributes:
        number: Number of its `Draw`.
    """

    number: int


class Found(msgspec.Struct, frozen=True, tag=True):
    """The responses that were asked for; none if there are none."""

    entries: list[StoredResponse]


class Deleted(msgspec.Struct, frozen=True, tag=True):
    """Whether there was a response to delete."""

    was_there: bool


class Drawn(msgspec.Struct, frozen=True, tag=True):
    """Whether a request fits.

    Attributes:
        exceeded: The limit without room for it; None if it counts as open.
        headers: The response's headers of rate limits.
    """

    exceeded: Exceeded | None
    headers: dict[str, str]


class Scaled(msgspec.Struct, frozen=True, tag=True):
    """The engines have come or gone."""

    state: ScalingState


class ScaleSeen(msgspec.Struct, frozen=True, tag=True):
    """The engines at present."""

    report: ScalingReport


Question = Chain | Holder | Delete | Draw | Scale | LookAtScale
AnyAnswer = Found | Deleted | Drawn | Scaled | ScaleSeen | ScalingRefused


class Ask(msgspec.Struct, frozen=True, tag=True):
    """A question that awaits an `Answer` with the same number."""

    number: int
    question: Question


class Answer(msgspec.Struct, frozen=True, tag=True):
    """The answer to an `Ask`."""

    number: int
    answer: AnyAnswer
