"""Settings that follow from other settings, unless they are set themselves."""

import os
from collections.abc import Collection, Mapping
from typing import cast

from hookline.exceptions import ConfigError
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.derived import SHORTHAND
from hookline_server.cli.options.engine import (
    SERVED_NAMES,
    TRACE_RATIO,
    TRACES_ENDPOINT,
)
from hookline_server.trace_rules import TraceRules

DEFAULT_MAX_TENANTS = 50

OTHER_NAMES = ("server.other_names", "batch.other_names")
TENANTS = "config.sections.metrics.tenants"
MAX_TENANTS = "config.sections.metrics.max_tenants"
EXPORTING_VARIABLES = (
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
)
"""Variables by which traces are exported, if the logger for them is in use."""
TENANT_SOURCES = ("server.tenant_header", "server.api_keys", "server.tenant_keys")


def completed(
    given: Mapping[str, object],
    loggers: Collection[str] = (),
    environment: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """Returns the settings, by dotted target, with those that follow from them.

    Args:
        given: What is set.
        loggers: The stat loggers in use.
        environment: The variables; None for those of this process.

    Raises:
        UsageError: An option lacks another one without which it has no effect.
        ConfigError: More tenants are named than allowed.
    """
    return {
        **_other_names(given),
        **_shorthands(given),
        **_traces(given, loggers, os.environ if environment is None else environment),
        **_tenants(given),
        **given,
        **_first_name(given),
    }


def _first_name(given: Mapping[str, object]) -> dict[str, object]:
    """Returns the name that is in metrics; a list is that of `--served-model-name`."""
    names = given.get(SERVED_NAMES)
    return {SERVED_NAMES: names[0]} if isinstance(names, list) and names else {}


def _other_names(given: Mapping[str, object]) -> dict[str, object]:
    names = given.get(SERVED_NAMES)
    others = names[1:] if isinstance(names, list) else []
    return dict.fromkeys(OTHER_NAMES, tuple(others)) if others else {}


def _shorthands(given: Mapping[str, object]) -> dict[str, object]:
    prefix = f"{SHORTHAND}."
    return {
        target.removeprefix(prefix): value
        for target, value in given.items()
        if target.startswith(prefix)
    }


def _traces(
    given: Mapping[str, object],
    loggers: Collection[str],
    environment: Mapping[str, str],
) -> dict[str, object]:
    _, logger, key = TRACES_ENDPOINT.split(".")
    options = given.get("config.observers.options", {})
    of_logger = cast("Mapping[str, Mapping[str, str]]", options).get(logger, {})
    is_exporting = logger in loggers and any(map(environment.get, EXPORTING_VARIABLES))
    if TRACES_ENDPOINT in given or key in of_logger or is_exporting:
        rules = TraceRules.of(environment, warn=bool)  # the server warns
        if rules.ratio is None:  # another sampler decides, if there is one
            return {TRACE_RATIO: 1.0 if rules.sampler is None else 0.0}
        return {TRACE_RATIO: rules.ratio}
    if TRACE_RATIO in given:
        raise UsageError("--otlp-traces-sample requires --otlp-traces-endpoint")
    return {}


def _tenants(given: Mapping[str, object]) -> dict[str, object]:
    named = cast("list[str]", given.get(TENANTS, []))
    if not any(source in given for source in TENANT_SOURCES):
        for target, flag in ((TENANTS, "tenant"), (MAX_TENANTS, "max-tenants")):
            if given.get(target):
                raise UsageError(f"--{flag} requires --tenant-header or --api-keys")
        return {}
    if 0 < cast("int", given.get(MAX_TENANTS, 0)) < len(named):
        raise ConfigError(
            "max-tenants", f"must be at least {len(named)}, the number of --tenant"
        )
    return {MAX_TENANTS: len(named) or DEFAULT_MAX_TENANTS}
