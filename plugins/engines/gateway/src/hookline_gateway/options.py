"""The options of `hookline gateway`."""

from dataclasses import replace

from hookline_gateway.settings import GatewaySettings
from hookline_server.cli.options.derived import derived
from hookline_server.cli.options.engine import (
    CONFIG_FILE_OPTION,
    OTLP_OPTIONS,
    engine_options,
)
from hookline_server.cli.options.option import Option
from hookline_server.cli.options.server import server_tenant_options

LOGGERS = ("prometheus", "logging")
"""Stat loggers in use unless `none` is named: those that need no steps."""

_OF_LOGGERS = ("config.observers.", "config.sections.metrics.")
_OF_ENGINES = frozenset(
    {
        "collect-detailed-traces",
        "heartbeat-seconds",
        "keep-prompts",
        "observer-process",
    }
)


def gateway_options() -> list[Option]:
    """Returns the options of the gateway, and those of loggers and metrics.

    Raises:
        RegistryError: A section of the configuration is broken.
    """
    of_loggers = [
        replace(option, default=" and ".join(LOGGERS))
        if option.flag == "stat-logger"
        else option
        for option in engine_options()
        if option.target.startswith(_OF_LOGGERS) and option.flag not in _OF_ENGINES
    ]
    return [
        *derived(GatewaySettings, "server"),
        *of_loggers,
        *server_tenant_options(),
        *OTLP_OPTIONS,
        CONFIG_FILE_OPTION,
    ]
