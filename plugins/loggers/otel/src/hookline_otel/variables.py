"""OpenTelemetry's standard environment variables.

By the specification a wrong value ends nothing: it is warned of, and the default takes
its place. An empty value counts like none.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from hookline.exceptions import ConfigError

ENVIRONMENT = "OTEL_EXPORTER_OTLP"
"""Prefix of the variables about exports."""

T = TypeVar("T")
_log = logging.getLogger("hookline_otel")
_OTHER_EXPORTERS = frozenset({"console", "logging", "prometheus", "zipkin", "jaeger"})


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
        return default


def of_signal(
    environment: Mapping[str, str], signal: str, name: str
) -> tuple[str, str | None]:
    """Returns the name and the value of a variable, the signal's own one first."""
    own, shared = f"{ENVIRONMENT}_{signal.upper()}_{name}", f"{ENVIRONMENT}_{name}"
    if value := environment.get(own, "").strip():
        return own, value
    return shared, environment.get(shared, "").strip() or None


def is_true(variable: str, text: str | None) -> bool:
    """Whether a variable is true, in any case; all but false is warned of."""
    value = (text or "").strip().lower()
    if value not in {"", "true", "false"}:
        _log.warning("%s is ignored: %r is neither true nor false", variable, text)
    return value == "true"


def is_exported(environment: Mapping[str, str], signal: str) -> bool:
    """Whether a signal is exported over OTLP, as `OTEL_…_EXPORTER` says."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    text = environment.get(variable, "").strip().lower()
    names = {part.strip() for part in text.split(",")} - {""}
    if not names or "otlp" in names:
        return True
    if unknown := names - {"none"} - _OTHER_EXPORTERS:
        _log.warning(
            "%s is ignored: %s is not known, only otlp and none are", variable, unknown
        )
        return True
    if names != {"none"}:
        _log.warning(
            "%s=%s: this logger only exports over OTLP, so it does not export %s",
            variable,
            text,
            signal,
        )
    return False
