"""Which exporters a signal has, as `OTEL_…_EXPORTER` names them."""

import logging
from collections.abc import Mapping
from importlib.metadata import entry_points

from hookline_otel.variables import value

OTLP = "otlp"
NONE = "none"
_OLD_NAMES = {"logging": "console"}
_STANDARD = frozenset({"jaeger", "otlp/stdout", "prometheus", "zipkin"})
"""Other exporters that the specification names, now or in the past."""

_log = logging.getLogger("hookline_otel")


def group(signal: str) -> str:
    """Returns the group of entry points of a signal's exporters."""
    return f"opentelemetry_{signal}_exporter"


def exporter_names(
    environment: Mapping[str, str], signal: str
) -> tuple[str, ...] | None:
    """Returns the exporters that a variable names; None if it leaves that open."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    named = (value(environment, variable) or "").lower().split(",")
    names = [_OLD_NAMES.get(name, name) for part in named if (name := part.strip())]
    if NONE in names:
        return ()
    known = [name for name in names if name == OTLP or _is_usable(signal, name)]
    for name in dict.fromkeys(names):
        if name not in known:
            _log.warning(
                "%s: %s is ignored, as no such exporter is installed", variable, name
            )
    if known:
        return tuple(dict.fromkeys(known))
    # What another exporter was meant to have is not for a collector.
    return () if _STANDARD.intersection(names) else None


def _is_usable(signal: str, name: str) -> bool:
    if name == "prometheus":  # it is a page, not something that metrics are pushed to
        return False
    return bool(entry_points(group=group(signal), name=name))
