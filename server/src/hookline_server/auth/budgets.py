"""The budgets of all keys and tenants that have limits."""

import time
from collections.abc import Callable, Mapping

from hookline_server.auth.budget import Budget
from hookline_server.auth.key import ApiKey, KeySet, Limits


class Budgets:
    """Budgets by name; they survive a change of the file.

    Attributes:
        clock: Monotonic time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._of_keys: dict[str, Budget] = {}
        self._of_tenants: dict[str, Budget] = {}

    @property
    def are_any(self) -> bool:
        """Whether any key or tenant has limits."""
        return bool(self._of_keys or self._of_tenants)

    def use(self, content: KeySet) -> None:
        """Takes over the limits of a file; forgets those of other keys."""
        keys = {key.name: key.limits for key in content.keys.values()}
        tenants = {name: tenant.limits for name, tenant in content.tenants.items()}
        self._of_keys = self._updated(self._of_keys, keys)
        self._of_tenants = self._updated(self._of_tenants, tenants)

    def of(self, key: ApiKey, tenant: str | None) -> tuple[Budget, ...]:
        """Returns the budgets that a request draws on: its key's and its tenant's."""
        return self.named(key.name if key.limits else None, tenant)

    def named(self, key: str | None, tenant: str | None) -> tuple[Budget, ...]:
        """Returns the budgets of a key and of a tenant, by their names."""
        found = (
            None if key is None else self._of_keys.get(key),
            None if tenant is None else self._of_tenants.get(tenant),
        )
        return tuple(budget for budget in found if budget is not None)

    def _updated(
        self, before: Mapping[str, Budget], limits: Mapping[str, Limits]
    ) -> dict[str, Budget]:
        now = self.clock()
        found: dict[str, Budget] = {}
        for name, each in limits.items():
            if each and name in before:
                found[name] = before[name]
                found[name].use(each, now)
            elif each:
                found[name] = Budget(each, now)
        return found
