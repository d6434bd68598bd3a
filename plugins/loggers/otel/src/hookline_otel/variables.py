"""OpenTelemetry's standard environment variables.

By the specification a wrong value ends nothing: it is warned of, and the default takes
its place. An empty value counts like none.
"""

import logging
import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TypeVar

from hookline.exceptions import ConfigError

ENVIRONMENT = "OTEL_EXPORTER_OTLP"
"""Prefix of the variables about exports."""

T = TypeVar("T")
_log = logging.getLogger("hookline_otel")
_LARGEST = 2**31 - 1

WITHOUT_EFFECT: Mapping[str, str] = {
    "OTEL_CONFIG_FILE": "no configuration file is read",
    "OTEL_EXPERIMENTAL_CONFIG_FILE": "no configuration file is read",
    "OTEL_ENTITIES": "the resource has no entities",
    "OTEL_EXPORTER_JAEGER_AGENT_HOST": "Jaeger takes OTLP",
    "OTEL_EXPORTER_JAEGER_AGENT_PORT": "Jaeger takes OTLP",
    "OTEL_EXPORTER_JAEGER_ENDPOINT": "Jaeger takes OTLP",
    "OTEL_EXPORTER_JAEGER_TIMEOUT": "Jaeger takes OTLP",
    "OTEL_EXPORTER_OTLP_SPAN_INSECURE": "it is OTEL_EXPORTER_OTLP_TRACES_INSECURE now",
    "OTEL_EXPORTER_OTLP_METRIC_INSECURE": "it is OTEL_EXPORTER_OTLP_METRICS_INSECURE "
    "now",
    "OTEL_EXPORTER_PROMETHEUS_HOST": "the logger prometheus has the page /metrics",
    "OTEL_EXPORTER_PROMETHEUS_PORT": "the logger prometheus has the page /metrics",
    "OTEL_PYTHON_ID_GENERATOR": "the server chooses ids as requests arrive",
}
"""Variables of the specification that change nothing here, and why."""

_FIXED: Mapping[str, tuple[str, str]] = {
    f"{ENVIRONMENT}_METRICS_TEMPORALITY_PREFERENCE": (
        "cumulative",
        "all metrics are cumulative",
    ),
    f"{ENVIRONMENT}_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": (
        "explicit_bucket_histogram",
        "all histograms have their own buckets",
    ),
}
"""Variables with the only value that is possible here, and why others are not."""

_LIMITS = (
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
)
_LEVEL = "OTEL_LOG_LEVEL"
_LEVELS = {
    "none": logging.CRITICAL + 1,
    "fatal": logging.CRITICAL,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}
EXEMPLARS = "OTEL_METRICS_EXEMPLAR_FILTER"
_EXEMPLARS = ("always_on", "always_off", "trace_based")


def tolerant(
    read: Callable[[str, str], T], variable: str, text: str | None, default: T
) -> T:
    """Reads a variable; the default if it is not set or wrong.

    Args:
        read: Reads the text of an option or variable of a name; raises `ConfigError`.
        variable: Name of the variable.
        text: Its value, if any.
        default: What holds otherwise.
    """
    if text is None:
        return default
    try:
        return read(variable, text)
    except ConfigError as error:
        _log.warning("%s is ignored: %s", error.option, error.detail)
        if os.environ.get(variable, "").strip() == text:
            del os.environ[variable]  # the SDK reads it, too, and might fail
        return default


def value(environment: Mapping[str, str], variable: str) -> str | None:
    """Returns the value of a variable, or None if it is not set or empty."""
    return environment.get(variable, "").strip() or None


def of_signal(
    environment: Mapping[str, str], signal: str, name: str
) -> tuple[str, str | None]:
    """Returns the name and the value of a variable, the signal's own one first."""
    own, shared = f"{ENVIRONMENT}_{signal.upper()}_{name}", f"{ENVIRONMENT}_{name}"
    if text := value(environment, own):
        return own, text
    return shared, value(environment, shared)


def is_true(variable: str, text: str | None) -> bool:
    """Whether a variable is true, in any case; all but false is warned of."""
    lower = (text or "").strip().lower()
    if lower not in {"", "true", "false"}:
        _log.warning("%s is ignored: %r is neither true nor false", variable, text)
    return lower == "true"


def integer(
    environment: Mapping[str, str], variable: str, default: int, least: int = 1
) -> int:
    """Returns the number that a variable has."""
    read = partial(_integer, least=least)
    return tolerant(read, variable, value(environment, variable), default)


def has_exemplars(environment: Mapping[str, str]) -> bool:
    """Whether metrics have exemplars, which are of traced requests in any case."""
    read = partial(_one_of, known=_EXEMPLARS)
    text = value(environment, EXEMPLARS)
    return tolerant(read, EXEMPLARS, text, "") != "always_off"


def check(environment: Mapping[str, str]) -> None:
    """Checks the variables that the SDK reads, and names those without effect."""
    for variable in _LIMITS:
        integer(environment, variable, 0, least=0)
        if not os.environ.get(variable, "x").strip():
            del os.environ[variable]  # to the SDK an empty one would be no limit
    level = tolerant(
        partial(_one_of, known=_LEVELS), _LEVEL, value(environment, _LEVEL), ""
    )
    if level:
        logging.getLogger("opentelemetry").setLevel(_LEVELS[level])
    for variable, why in WITHOUT_EFFECT.items():
        if value(environment, variable):
            _log.warning("%s has no effect: %s", variable, why)
    for variable, (only, why) in _FIXED.items():
        text = value(environment, variable)
        if text is not None and text.lower() != only:
            _log.warning("%s=%s has no effect: %s", variable, text, why)
    traces = value(environment, "OTEL_TRACES_EXPORTER") or ""
    for variable in ("OTEL_EXPORTER_ZIPKIN_ENDPOINT", "OTEL_EXPORTER_ZIPKIN_TIMEOUT"):
        if value(environment, variable) and "zipkin" not in traces:
            _log.warning(
                "%s has no effect: OTEL_TRACES_EXPORTER does not name zipkin", variable
            )


def _integer(variable: str, text: str, *, least: int) -> int:
    if text.isascii() and text.isdecimal() and least <= int(text) <= _LARGEST:
        return int(text)
    raise ConfigError(
        variable, f"must be an integer, {least} to {_LARGEST}, not {text!r}"
    )


def _one_of(variable: str, text: str, *, known: Collection[str]) -> str:
    if (lower := text.lower()) in known:
        return lower
    raise ConfigError(variable, f"{text!r} is none of {', '.join(known)}")
