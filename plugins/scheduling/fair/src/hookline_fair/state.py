"""What the policy `fair` knows, in plain data, so that a replay can begin with it."""

import msgspec


class TenantState(msgspec.Struct, frozen=True, array_like=True):
    """A `Tenant`, without its requests."""

    name: str
    number: int
    virtual_time: float
    label: str = ""
    is_idle: bool = False


class PayerState(msgspec.Struct, frozen=True, array_like=True):
    """A `Payer`; `last` is the name of the tenant that was served last."""

    name: str
    number: int
    virtual_time: float
    weight: float
    last: str | None = None
    is_idle: bool = False
    tenants: list[TenantState] = []


class FairState(msgspec.Struct, frozen=True, array_like=True):
    """All payers, those that have been idle longest first.

    Attributes:
        number: Order of the latest appearance.
        last: Name of the payer that was served last.
        payers: The payers.
    """

    number: int
    last: str | None = None
    payers: list[PayerState] = []
