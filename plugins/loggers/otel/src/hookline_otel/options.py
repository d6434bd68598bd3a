"""The logger's options, parsed without importing OpenTelemetry."""

import logging
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Self
from urllib.parse import unquote

from hookline.exceptions import ConfigError
from hookline.payloads import LoggerContext
from hookline_otel.endpoint import (
    Endpoint,
    Signal,
    find_endpoint,
    usual_endpoint,
)
from hookline_otel.exporter_names import OTLP, exporter_names
from hookline_otel.variables import check, is_true, tolerant, value

MAX_FLUSH_SECONDS = 4.0
"""Stays below the 5 s that the front end waits for its loggers to close."""

HELP: Mapping[str, tuple[str, str | None]] = {
    "traces_endpoint": ("URL for traces, such as http://localhost:4317", None),
    "metrics_endpoint": ("URL for metrics; no metrics are sent without it", None),
    "logs_endpoint": ("URL for the server's log; turns logs on", None),
    "logs": (
        "true exports the server's log; by default only if logs_endpoint is set",
        None,
    ),
    "protocol": (
        "grpc or http/protobuf; defaults to OTEL_EXPORTER_OTLP_PROTOCOL, then grpc",
        None,
    ),
    "headers": ("request headers: name=value,name=value", None),
    "semconv": ("attributes of request spans: genai, vllm or both", "genai"),
    "service_name": ("name of the service; defaults to OTEL_SERVICE_NAME", None),
    "metrics_interval": (
        "seconds between two pushes; defaults to OTEL_METRIC_EXPORT_INTERVAL, then 10",
        None,
    ),
    "flush_seconds": ("maximum seconds for the last export on shutdown", "2"),
}
"""Help text and default of each option."""

DISABLED = "OTEL_SDK_DISABLED"
OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"
LATEST = "gen_ai_latest_experimental"
INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_USUAL_INTERVAL = 10.0
_LONGEST_INTERVAL = 3600.0
_log = logging.getLogger("hookline_otel")

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


class Semconv(StrEnum):
    """Conventions that request spans follow."""

    GENAI = "genai"
    VLLM = "vllm"
    BOTH = "both"

    @property
    def has_genai(self) -> bool:
        return self is not Semconv.VLLM

    @property
    def has_vllm(self) -> bool:
        return self is not Semconv.GENAI


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Endpoints and export settings.

    Attributes:
        traces: Endpoint of spans; None sends none by OTLP.
        metrics: Endpoint of metrics; None sends none by OTLP.
        logs: Endpoint of the server's log; None sends none by OTLP.
        others: Names of the signals' further exporters, such as `console`.
        is_host_traced: Whether spans go to the provider of the host program, if it has
            set one.
        headers: Request headers; None uses the standard environment variables.
        semconv: Attributes of request spans.
        service_name: Name of the service; None uses the standard environment variables.
        metrics_interval_seconds: Seconds between two pushes.
        flush_seconds: Maximum duration of the last export.
    """

    traces: Endpoint | None = None
    metrics: Endpoint | None = None
    logs: Endpoint | None = None
    others: Mapping[Signal, tuple[str, ...]] = field(default_factory=dict)
    is_host_traced: bool = False
    headers: dict[str, str] | None = field(default=None, repr=False)
    semconv: Semconv = Semconv.GENAI
    service_name: str | None = None
    metrics_interval_seconds: float = 10.0
    flush_seconds: float = 2.0

    @classmethod
    def read(
        cls,
        context: LoggerContext,
        environment: Mapping[str, str],
        *,
        has_host: bool = False,
    ) -> Self:
        """Parses the options.

        Args:
            context: They are in it.
            environment: The variables.
            has_host: Whether a host program has set a provider for traces.

        Raises:
            ConfigError: An option is unknown, its value is invalid, or no endpoint is
                configured and nothing is turned off.
        """
        given, name = context.options, context.name
        if unknown := sorted(set(given) - set(HELP)):
            known = ", ".join(HELP)
            raise ConfigError(
                f"{name}.{unknown[0]}", f"no such option; options: {known}"
            )
        if is_true(DISABLED, environment.get(DISABLED)):
            _log.info("%s is set: nothing is exported", DISABLED)
            return cls()
        check(environment)
        chosen = _Exports(given, environment, name)
        found = {signal: chosen.of(signal) for signal in Signal}
        if not (has_host or chosen.is_turned_off or any(map(any, found.values()))):
            raise ConfigError(
                f"{name}.traces_endpoint",
                "no endpoint: set this, metrics_endpoint, logs_endpoint or the "
                "environment variable OTEL_EXPORTER_OTLP_ENDPOINT",
            )
        return cls(
            traces=found[Signal.TRACES][0],
            metrics=found[Signal.METRICS][0],
            logs=found[Signal.LOGS][0],
            others={signal: names for signal, (_, names) in found.items() if names},
            is_host_traced=has_host and "traces_endpoint" not in given,
            headers=_headers(f"{name}.headers", given.get("headers")),
            semconv=_semconv(f"{name}.semconv", given.get("semconv"), environment),
            service_name=_name(f"{name}.service_name", given.get("service_name")),
            metrics_interval_seconds=_interval(name, given, environment),
            flush_seconds=_seconds(
                f"{name}.flush_seconds",
                given.get("flush_seconds", "2"),
                MAX_FLUSH_SECONDS,
            ),
        )


def read_headers(option: str, text: str) -> dict[str, str]:
    """Parses `name=value,name=value` into headers by lower-case name.

    Raises:
        ConfigError: A header is invalid.
    """
    headers: dict[str, str] = {}
    for pair in text.split(","):
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not (equals and _HEADER_NAME.fullmatch(key)):
            raise ConfigError(option, "must be name=value,name=value")
        headers[key.lower()] = unquote(value)
        # The value is not shown: it may be a secret.
        if not _HEADER_VALUE.fullmatch(headers[key.lower()]):
            raise ConfigError(option, f"the value of {key} is not printable ASCII")
    return headers


def _headers(option: str, text: str | None) -> dict[str, str] | None:
    return None if text is None else read_headers(option, text)


def _interval(
    name: str, given: Mapping[str, str], environment: Mapping[str, str]
) -> float:
    if (text := given.get("metrics_interval")) is not None:
        return _seconds(f"{name}.metrics_interval", text, _LONGEST_INTERVAL)
    return tolerant(
        partial(read_milliseconds, most=_LONGEST_INTERVAL),
        INTERVAL,
        value(environment, INTERVAL),
        _USUAL_INTERVAL,
    )


def read_milliseconds(variable: str, text: str, most: float) -> float:
    """Returns a duration in seconds, which variables have in milliseconds.

    Raises:
        ConfigError: It is not above 0 and at most `most` seconds.
    """
    if text.isascii() and text.isdecimal() and 0 < int(text) <= most * 1000:
        return int(text) / 1000
    raise ConfigError(
        variable, f"must be milliseconds, 1 to {most * 1000:.0f}, not {text!r}"
    )


class _Exports:
    """Finds where each signal goes, by the options and then by the variables."""

    def __init__(
        self, given: Mapping[str, str], environment: Mapping[str, str], name: str
    ) -> None:
        self.is_turned_off = False
        self._given = given
        self._environment = environment
        self._name = name

    def of(self, signal: Signal) -> tuple[Endpoint | None, tuple[str, ...]]:
        """Returns the endpoint for OTLP, and the names of the other exporters."""
        names = exporter_names(self._environment, signal)
        is_asked_for = f"{signal}_endpoint" in self._given
        if signal is Signal.LOGS:
            wanted = _flag(f"{self._name}.logs", self._given.get("logs"))
            is_asked_for = wanted is True or (wanted is None and is_asked_for)
            if not is_asked_for and (wanted is False or names is None):
                return None, ()  # an endpoint in the environment does not turn it on
        others = tuple(each for each in names or () if each != OTLP)
        if names is not None and OTLP not in names and not is_asked_for:
            self.is_turned_off |= not names and signal is not Signal.LOGS
            return None, others
        endpoint = find_endpoint(signal, self._given, self._environment, self._name)
        if endpoint is None and names is not None and OTLP in names:
            endpoint = usual_endpoint(
                signal, self._given, self._environment, self._name
            )
        if endpoint is None and signal is Signal.LOGS:
            raise ConfigError(
                f"{self._name}.logs",
                "no endpoint: set logs_endpoint or the environment variable "
                "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT",
            )
        return endpoint, others


def _flag(option: str, text: str | None) -> bool | None:
    if text is None:
        return None
    if text not in {"true", "false"}:
        raise ConfigError(option, f"must be true or false, not {text!r}")
    return text == "true"


def _semconv(option: str, text: str | None, environment: Mapping[str, str]) -> Semconv:
    """Reads the option, else what the standard's variable opts into."""
    if text is None:
        asked = (value(environment, OPT_IN) or "").lower().split(",")
        is_double = f"{LATEST}/dup" in {part.strip() for part in asked}
        return Semconv.BOTH if is_double else Semconv.GENAI
    try:
        return Semconv(text)
    except ValueError as error:
        known = ", ".join(Semconv)
        raise ConfigError(
            option, f"unknown conventions {text!r}; known: {known}"
        ) from error


def _name(option: str, text: str | None) -> str | None:
    if text is not None and not text.strip():
        raise ConfigError(option, "must not be empty")
    return text


def _seconds(option: str, text: str, most: float) -> float:
    try:
        seconds = float(text)
    except ValueError as error:
        raise ConfigError(option, f"{text!r} is not a number of seconds") from error
    if not (math.isfinite(seconds) and 0 < seconds <= most):
        raise ConfigError(
            option, f"must be above 0 and at most {most:g} seconds, not {text}"
        )
    return seconds
