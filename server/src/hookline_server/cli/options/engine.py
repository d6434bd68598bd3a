"""The engine's options, shared by all commands that start one."""

from dataclasses import replace

from hookline.config import EngineConfig
from hookline_server.cli.options.derived import derived
from hookline_server.cli.options.option import (
    CONFIG_FILE,
    FAIL_ON_ENVIRONMENT,
    Kind,
    Option,
)

TENANTS = "tenants"
TRACES = "traces"

TRACES_ENDPOINT = "logger.otel.traces_endpoint"
METRICS_ENDPOINT = "logger.otel.metrics_endpoint"
SERVED_NAMES = "config.model.served_model_name"
TRACE_RATIO = "config.observers.trace_ratio"

FLAGS = {"trace-ratio": "otlp-traces-sample"}
"""Flags that differ from the engine's own names of the options."""

OTLP_OPTIONS = (
    Option(
        flag="otlp-traces-endpoint",
        target=TRACES_ENDPOINT,
        group=TRACES,
        metavar="URL",
        help="URL that traces are exported to; enables the stat logger otel.",
    ),
    Option(
        flag="otlp-metrics-endpoint",
        target=METRICS_ENDPOINT,
        group=TRACES,
        metavar="URL",
        help="URL that metrics are exported to; enables the stat logger otel.",
    ),
)

CONFIG_FILE_OPTION = Option(
    flag="config",
    target=CONFIG_FILE,
    group="configuration file",
    metavar="FILE",
    help="YAML file with these options, without leading dashes. The command line takes "
    "precedence, then HOOKLINE_ variables.",
)

ENVIRONMENT_OPTION = Option(
    flag="fail-on-environ-validation",
    target=FAIL_ON_ENVIRONMENT,
    group="configuration file",
    kind=Kind.SWITCH,
    help="Refuse unknown HOOKLINE_ variables, of which a line warns otherwise.",
)


def engine_options() -> list[Option]:
    """Returns the engine's options, those of installed sections included.

    Raises:
        RegistryError: A section is broken.
    """
    found = [each for each in derived(EngineConfig, "config") if each.group != TENANTS]
    own = [*OTLP_OPTIONS, CONFIG_FILE_OPTION, ENVIRONMENT_OPTION]
    return [*map(_on_the_command_line, found), *own]


def tenant_options() -> list[Option]:
    """Returns the engine's options that only a server has."""
    return [each for each in derived(EngineConfig, "config") if each.group == TENANTS]


def _on_the_command_line(option: Option) -> Option:
    if option.target == TRACE_RATIO:
        return replace(option, flag=FLAGS[option.flag], default="1")
    if option.target == SERVED_NAMES:
        text = (
            "Names of the model in the API; the first one is in responses and metrics. "
            "Can be repeated."
        )
        return replace(option, kind=Kind.LIST, help=text)
    return option
