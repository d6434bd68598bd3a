"""The options of `hookline serve` that are not the engine's."""

from dataclasses import replace

from hookline_server.cli.options.derived import derived
from hookline_server.cli.options.engine import tenant_options
from hookline_server.cli.options.implied import DEFAULT_MAX_TENANTS, TENANTS
from hookline_server.cli.options.option import Kind, Option
from hookline_server.settings import ServerSettings
from hookline_server.tenant_names import is_tenant

RESERVED_TENANTS = ("other", "none")
"""Values of the label `tenant` for requests of other tenants, and of none."""


def tenant(text: str) -> str:
    """Reads the name of a tenant that a label may have."""
    if not is_tenant(text):
        raise ValueError(
            f"{text!r} is not a tenant: it must be 1 to 64 letters, digits and ._:-"
        )
    if text in RESERVED_TENANTS:
        raise ValueError(f"{text!r} is reserved for other tenants")
    return text


def _of_a_server(option: Option) -> Option:
    if option.target == TENANTS:
        return replace(option, parse=tenant)
    default = f"the number of --tenant, or {DEFAULT_MAX_TENANTS}"
    return replace(option, default=default)


HEADLESS = Option(
    flag="headless",
    target="run.headless",
    group="several machines",
    kind=Kind.FLAG,
    help="Run this machine's engines for a server on another one, the head node, and "
    "no server here; options of the server are ignored.",
)


def server_options() -> list[Option]:
    """Returns the options of `hookline serve` that are not the engine's."""
    return [
        HEADLESS,
        *derived(ServerSettings, "server", group="server"),
        *server_tenant_options(),
    ]


def server_tenant_options() -> list[Option]:
    """Returns the options of tenants, as a server has them."""
    return list(map(_of_a_server, tenant_options()))
