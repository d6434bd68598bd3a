"""Names of tenants."""

import re

MAX_TENANT_LENGTH = 64

_NOT_IN_TENANT = re.compile(r"[^A-Za-z0-9._:\-]")


def cleaned(name: str) -> str | None:
    """Returns the name without forbidden characters, or None if nothing is left.

    The allowed characters are those of a request id.
    """
    return _NOT_IN_TENANT.sub("", name)[:MAX_TENANT_LENGTH] or None


def is_tenant(name: str) -> bool:
    """Whether a tenant can have this name."""
    return cleaned(name) == name
