"""An API key's owner, scopes, permissions and limits; not the key itself."""

from dataclasses import dataclass, field
from enum import StrEnum


class Scope(StrEnum):
    """Group of paths that a key opens.

    `SERVE` is the API, `METRICS` the stat loggers' pages, `ADMIN` what changes the
    server's state for everybody.
    """

    SERVE = "serve"
    METRICS = "metrics"
    ADMIN = "admin"


EVERY_SCOPE = frozenset(Scope)


@dataclass(frozen=True, slots=True)
class PriorityRange:
    """The priorities that a key may set, both ends included; lower runs first.

    None means no bound.
    """

    lowest: int | None = None
    highest: int | None = None

    def __contains__(self, priority: int) -> bool:
        return (self.lowest is None or priority >= self.lowest) and (
            self.highest is None or priority <= self.highest
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """The fields of a request that affect others, and whether a key may set them.

    Attributes:
        priority: The priorities that it may set besides 0, which is the default; None
            allows none.
        tenant: Whether the tenants that it names are believed, whose weights and limits
            then count; otherwise they only divide what is the key's.
    """

    priority: PriorityRange | None = None
    cache_salt: bool = True
    kv_transfer_params: bool = False
    tenant: bool = False

    def may_set_priority(self, priority: int) -> bool:
        return priority == 0 or (
            self.priority is not None and priority in self.priority
        )


# But not `tenant`: all clients may have the one key of the options.
EVERY_PERMISSION = Permissions(priority=PriorityRange(), kv_transfer_params=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a key or a tenant; None means no limit.

    Attributes:
        requests_per_minute: Requests of the scope `serve`.
        tokens_per_minute: Tokens of prompts and outputs.
        concurrent_requests: Requests of the scope `serve` that are open at once.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_requests: int | None = None

    def __bool__(self) -> bool:
        return self != NO_LIMITS


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """Everything about a key but the key itself.

    Attributes:
        name: Its name in the file, for people: two keys can have the same.
        id: SHA-256 digest of its text in hexadecimal digits, by which everything that
            is its own is found; empty until it is in a table.
        tenant: Tenant of its requests; None leaves it to the tenant header.
        scopes: Groups of paths that it opens.
        weight: Its share of the engine, relative to other tenants; None takes the
            tenant's.
    """

    name: str
    id: str = ""
    tenant: str | None = None
    scopes: frozenset[Scope] = frozenset({Scope.SERVE})
    permissions: Permissions = Permissions()
    limits: Limits = NO_LIMITS
    weight: float | None = None

    def certain_tenant(self, tenant: str | None) -> str | None:
        """Returns the tenant of a request, or None if the request only claims it."""
        is_certain = self.tenant is not None or self.permissions.tenant
        return tenant if is_certain else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """What all keys of a tenant share.

    Attributes:
        weight: Share of the engine, relative to other tenants.
    """

    limits: Limits = NO_LIMITS
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class KeySet:
    """The content of a file of keys.

    Attributes:
        keys: Keys by the SHA-256 digest of their text.
        tenants: Tenants with limits or a weight, by name.
    """

    keys: dict[bytes, ApiKey] = field(default_factory=dict)
    tenants: dict[str, Tenant] = field(default_factory=dict)
