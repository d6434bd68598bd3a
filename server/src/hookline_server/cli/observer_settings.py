"""Settings that follow from other settings, unless they were given themselves."""

from collections.abc import Mapping
from typing import cast

from hookline.exceptions import ConfigError
from hookline_server.cli.observer_options import TRACES_ENDPOINT
from hookline_server.cli.observer_values import DEFAULT_SAMPLE
from hookline_server.cli.parser import UsageError

DEFAULT_MAX_TENANTS = 50

TRACE_RATIO = "config.observers.trace_ratio"
RESIDENCY = "config.cache.residency_sample"
TENANTS = "config.observers.metrics.tenants"
MAX_TENANTS = "config.observers.metrics.max_tenants"
TENANT_SOURCES = ("server.tenant_header", "server.tenant_keys")

_ENDPOINT_OPTION = f"{TRACES_ENDPOINT.removeprefix('logger.')}="


def completed(given: Mapping[str, object]) -> dict[str, object]:
    """What was given and what follows from it, by dotted target.

    Raises:
        UsageError: An option lacks the one without which it would do nothing.
        ConfigError: More tenants are named than may be.
    """
    return {**_residency(given), **_traces(given), **_tenants(given), **given}


def _residency(given: Mapping[str, object]) -> dict[str, object]:
    return {RESIDENCY: DEFAULT_SAMPLE} if "run.kv_cache_metrics" in given else {}


def _traces(given: Mapping[str, object]) -> dict[str, object]:
    options = cast("list[str]", given.get("run.stat_logger_options", []))
    if TRACES_ENDPOINT in given or any(
        option.startswith(_ENDPOINT_OPTION) for option in options
    ):
        return {TRACE_RATIO: 1.0}
    if TRACE_RATIO in given:
        raise UsageError("--otlp-traces-sample needs --otlp-traces-endpoint")
    return {}


def _tenants(given: Mapping[str, object]) -> dict[str, object]:
    named = cast("list[str]", given.get(TENANTS, []))
    if not any(source in given for source in TENANT_SOURCES):
        for target, flag in ((TENANTS, "tenant"), (MAX_TENANTS, "max-tenants")):
            if given.get(target):
                raise UsageError(f"--{flag} needs --tenant-header or --tenant-keys")
        return {}
    if 0 < cast("int", given.get(MAX_TENANTS, 0)) < len(named):
        raise ConfigError("max-tenants", f"is less than the {len(named)} of --tenant")
    return {MAX_TENANTS: len(named) or DEFAULT_MAX_TENANTS}
