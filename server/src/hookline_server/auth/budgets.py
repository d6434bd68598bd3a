"""The budgets of all keys and tenants that have limits."""

import time
from collections.abc import Callable, Mapping

from hookline_server.auth.budget import Budget
from hookline_server.auth.key import ApiKey, KeySet, Limits


class Budgets:
    """Budgets by keys' ids and tenants' names; they survive a change of the file.

    Attributes:
        clock: Monotonic time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._of_keys = _Group()
        self._of_tenants = _Group()

    @property
    def are_any(self) -> bool:
        """Whether any key or tenant has limits."""
        return bool(self._of_keys.listed or self._of_tenants.listed)

    def use(self, content: KeySet) -> None:
        """Takes over the limits of a file; those of other keys no longer count."""
        keys = {digest.hex(): key.limits for digest, key in content.keys.items()}
        tenants = {name: tenant.limits for name, tenant in content.tenants.items()}
        now = self.clock()
        self._of_keys.use(keys, now)
        self._of_tenants.use(tenants, now)

    def of(self, key: ApiKey, tenant: str | None) -> tuple[Budget, ...]:
        """Returns the budgets that a request draws on: its key's and its tenant's.

        Args:
            key: The key.
            tenant: The tenant, if it is certain and not only claimed.
        """
        return self.named(key.id if key.limits else None, tenant)

    def named(self, key_id: str | None, tenant: str | None) -> tuple[Budget, ...]:
        """Returns the budgets of a key and of a tenant, by the id and the name."""
        found = (
            None if key_id is None else self._of_keys.listed.get(key_id),
            None if tenant is None else self._of_tenants.listed.get(tenant),
        )
        return tuple(budget for budget in found if budget is not None)


class _Group:
    """The budgets of all keys, or of all tenants.

    One that leaves the list is remembered until a new one would be the same: whoever
    comes back has not got a full budget by that.

    Attributes:
        listed: Those in the file.
    """

    def __init__(self) -> None:
        self.listed: dict[str, Budget] = {}
        self._former: dict[str, Budget] = {}

    def use(self, limits: Mapping[str, Limits], now: float) -> None:
        """Lists budgets with these limits."""
        known = self._former | self.listed
        self.listed = {}
        for name, each in limits.items():
            if each:
                budget = known.pop(name, None) or Budget(each, now)
                budget.use(each, now)
                self.listed[name] = budget
        self._former = {
            name: each for name, each in known.items() if not each.is_unused(now)
        }
