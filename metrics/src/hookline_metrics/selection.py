"""Selects metrics, names and buckets by the configuration."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from math import isfinite

from hookline.config import DetailedTrace, EngineConfig
from hookline.exceptions import ConfigError
from hookline_metrics.adapters import LORA
from hookline_metrics.buckets import BucketFamily, bounds_of
from hookline_metrics.catalogue import CATALOGUE, DIALECTS
from hookline_metrics.config import MetricsConfig
from hookline_metrics.metric import Alias, Feature, Labels, Metric
from hookline_metrics.native_buckets import NativeScale

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_WILD = re.compile(r"[*?\[]")
_VERSION = re.compile(r"(\d+)\.(\d+)")

Bounds = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A selected metric.

    Attributes:
        metric: The metric's definition.
        aliases: Its names in the chosen dialects.
    """

    metric: Metric
    aliases: tuple[Alias, ...]


class Selection:
    """A validated `MetricsConfig`.

    Attributes:
        chosen: Metrics that at least one chosen dialect has.
        labels: Constant labels, sorted by name.
    """

    def __init__(
        self, config: EngineConfig, *, native_schema: int | None = None
    ) -> None:
        """Resolves the configuration.

        `native_schema` is the resolution of exponential buckets; None for none.

        Raises:
            ConfigError: A dialect, metric, bucket or label is unknown or invalid.
        """
        metrics = MetricsConfig.of(config)
        _check_dialects(metrics.dialects)
        _check_patterns(metrics)
        self._overrides = _checked_buckets(metrics.histogram_buckets)
        self._metrics = metrics
        self._native_schema = native_schema
        self._shown_version = _parse_version(metrics.show_hidden_for_version)
        self.labels: Mapping[str, str] = _checked_labels(metrics.labels)
        features = _features(config)
        candidates = (
            Chosen(metric, tuple(self._shown_aliases(metric)))
            for metric in CATALOGUE
            if metric.feature is None or metric.feature in features
        )
        self.chosen = tuple(each for each in candidates if each.aliases)

    def bounds(self, metric: Metric, alias: Alias, max_model_len: int) -> Bounds:
        """Returns upper bounds in the alias's unit; the most specific override wins."""
        family = alias.buckets or metric.buckets
        assert family is not None
        for name in (alias.name, metric.exposed(alias.name), metric.name, family):
            if (own := self._overrides.get(name)) is not None:
                return own
        return bounds_of(family, max_model_len)

    def all_bounds(self, chosen: Chosen, max_model_len: int) -> Bounds:
        """Returns the union of all aliases' bounds, in the metric's unit.

        Observations with these bounds can be projected to every alias, to exponential
        buckets, too: a longer bisection is cheaper than a second one.
        """
        bounds: set[float] = set()
        for alias in chosen.aliases:
            if (native := self.native_scale(alias)) is not None:
                bounds.update(native.bounds)
        for alias in chosen.aliases:
            own = self.bounds(chosen.metric, alias, max_model_len)
            bounds.update(bound / alias.scale for bound in own)
        return tuple(sorted(bounds))

    def native_scale(self, alias: Alias) -> NativeScale | None:
        """Returns the alias's exponential buckets, None if there are none."""
        if self._native_schema is None:
            return None
        return NativeScale(self._native_schema, alias.scale)

    def _shown_aliases(self, metric: Metric) -> Iterable[Alias]:
        for dialect in dict.fromkeys(self._metrics.dialects):
            for alias in metric.aliases(dialect):
                names = {alias.name, metric.exposed(alias.name)}
                if self._is_shown(alias) and self._is_wanted(names):
                    yield alias

    def _is_shown(self, alias: Alias) -> bool:
        if alias.hidden_since is None:
            return True
        hidden = _parse_version(alias.hidden_since)
        assert hidden is not None
        return self._shown_version is not None and self._shown_version < hidden

    def _is_wanted(self, names: Collection[str]) -> bool:
        include, exclude = self._metrics.include, self._metrics.exclude
        if _matches(names, exclude):
            return False
        return not include or _matches(names, include)


def _features(config: EngineConfig) -> frozenset[Feature]:
    observers = config.observers
    present = {
        Feature.RESIDENCY: config.cache.residency_sample > 0,
        Feature.MODEL_TIMES: observers.details(DetailedTrace.MODEL),
        Feature.WORKER_TIMES: observers.details(DetailedTrace.WORKER),
        Feature.TENANTS: MetricsConfig.of(config).max_tenants > 0,
        Feature.ADAPTERS: LORA in config.extensions,
    }
    return frozenset(feature for feature, is_on in present.items() if is_on)


def _matches(names: Collection[str], patterns: Collection[str]) -> bool:
    # Most patterns of a long list are names, which need no matching.
    if not set(names).isdisjoint(patterns):
        return True
    wild = [each for each in patterns if _WILD.search(each)]
    return any(fnmatchcase(name, pattern) for name in names for pattern in wild)


def _all_names() -> set[str]:
    return {
        name
        for metric in CATALOGUE
        for dialect in DIALECTS
        for alias in metric.aliases(dialect)
        for name in (alias.name, metric.exposed(alias.name))
    }


def _check_dialects(dialects: tuple[str, ...]) -> None:
    if not dialects:
        raise ConfigError("metrics-dialect", "name at least one")
    for name in dialects:
        if name not in DIALECTS:
            known = ", ".join(DIALECTS)
            raise ConfigError(
                "metrics-dialect", f"unknown dialect {name!r}; known: {known}"
            )


def _check_patterns(config: MetricsConfig) -> None:
    names = _all_names()
    patterns = (
        ("include-metrics", config.include),
        ("exclude-metrics", config.exclude),
    )
    for option, given in patterns:
        for pattern in given:
            if not _matches(names, [pattern]):
                raise ConfigError(option, f"{pattern!r} matches no metric")


def _checked_buckets(given: Mapping[str, Bounds]) -> Mapping[str, Bounds]:
    known = {family.value for family in BucketFamily} | {
        name
        for metric in CATALOGUE
        if metric.buckets is not None
        for dialect in DIALECTS
        for alias in metric.aliases(dialect)
        for name in (alias.name,)
    }
    for name, bounds in given.items():
        if name not in known:
            families = ", ".join(BucketFamily)
            raise ConfigError(
                "histogram-buckets",
                f"{name!r} is neither a histogram nor a bucket family; "
                f"families: {families}",
            )
        if not bounds or not all(isfinite(bound) and bound > 0 for bound in bounds):
            raise ConfigError(
                "histogram-buckets", f"{name}: bounds must be positive and finite"
            )
        if list(bounds) != sorted(set(bounds)):
            raise ConfigError(
                "histogram-buckets", f"{name}: bounds must be strictly increasing"
            )
    return {name: tuple(map(float, bounds)) for name, bounds in given.items()}


def _checked_labels(given: Mapping[str, str]) -> Mapping[str, str]:
    for name in given:
        if not _LABEL.fullmatch(name) or name.startswith("__"):
            raise ConfigError("metrics-label", f"{name!r} is not a valid label name")
        if name in _labels_of_metrics():
            raise ConfigError(
                "metrics-label", f"{name!r} is already a label of a metric"
            )
    return dict(sorted(given.items()))


@cache
def _labels_of_metrics() -> frozenset[str]:
    """Returns the label names that a metric has in some dialect."""
    taken: set[str] = {"le", "quantile"}
    for metric in CATALOGUE:
        taken.update(metric.label_names)
        for dialect in DIALECTS:
            for alias in metric.aliases(dialect):
                taken.update(_label_names(metric, alias))
    return frozenset(taken)


def _label_names(metric: Metric, alias: Alias) -> Labels:
    kept = (name for name in metric.label_names if name not in alias.drop)
    return (*(alias.rename.get(name, name) for name in kept), *alias.add)


def _parse_version(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    if (match := _VERSION.fullmatch(text)) is None:
        raise ConfigError(
            "show-hidden-metrics-for-version", f"{text!r} is not a version such as 0.1"
        )
    return int(match[1]), int(match[2])
