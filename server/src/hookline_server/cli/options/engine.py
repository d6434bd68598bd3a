"""The engine's options, shared by all commands that start one."""

from dataclasses import replace

from hookline.config import EngineConfig
from hookline_server.cli.options.derived import derived
from hookline_server.cli.options.option import CONFIG_FILE, Option

TENANTS = "tenants"
TRACES = "traces"

TRACES_ENDPOINT = "logger.otel.traces_endpoint"
METRICS_ENDPOINT = "logger.otel.metrics_endpoint"
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
    "precedence.",
)

_DERIVED = tuple(derived(EngineConfig, "config"))

TENANT_OPTIONS = tuple(each for each in _DERIVED if each.group == TENANTS)
"""Options that only a server has."""


def _on_the_command_line(option: Option) -> Option:
    if option.target == TRACE_RATIO:
        return replace(option, flag=FLAGS[option.flag], default="1")
    return option


ENGINE_OPTIONS = (
    *(_on_the_command_line(each) for each in _DERIVED if each.group != TENANTS),
    *OTLP_OPTIONS,
    CONFIG_FILE_OPTION,
)
