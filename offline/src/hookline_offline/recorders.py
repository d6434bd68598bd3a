"""Loads what records an engine's metrics for a program that reads them itself."""

from collections.abc import Sequence
from typing import Protocol, cast

from hookline.config.engine import EngineConfig
from hookline.observer_context import RecorderContext
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import RECORDER
from hookline_registry import installed

_PLUGIN = "metrics"


class MetricHistogram(Protocol):
    """The value of a histogram's series.

    Attributes:
        bounds: Inclusive upper bounds, ascending, without infinity.
        counts: Observations per bucket, not cumulative; the last is above all bounds.
        sum: Sum of the observed values.
        count: Number of observations.
    """

    @property
    def bounds(self) -> tuple[float, ...]: ...

    @property
    def counts(self) -> tuple[int, ...]: ...

    @property
    def sum(self) -> float: ...

    @property
    def count(self) -> int: ...


class MetricSample(Protocol):
    """One series of a metric family.

    Attributes:
        labels: Label values, in the family's order.
        value: Its value.
    """

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def value(self) -> float | MetricHistogram: ...


class MetricFamily(Protocol):
    """All series of one metric.

    Attributes:
        name: Its name, without `_total` for counters.
        kind: `counter`, `gauge`, `histogram` or `summary`.
        unit: Base unit in the plural, or `1`.
        help: Help text.
        label_names: Label names of every sample.
        samples: The series.
    """

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def help(self) -> str: ...

    @property
    def label_names(self) -> tuple[str, ...]: ...

    @property
    def samples(self) -> Sequence[MetricSample]: ...


class Recorder(Protocol):
    """Records metrics; it also has a method for each observing hook that it wants."""

    def snapshot(self) -> tuple[MetricFamily, ...]:
        """Returns all metrics as of now; may be called in any thread."""
        ...


def load_recorder(config: EngineConfig) -> Recorder | None:
    """Returns a recorder, or None if no distribution provides one.

    Raises:
        ConfigError: The configuration of the metrics is invalid, or the plugin broken.
    """
    if not installed(RECORDER.group):
        return None
    context = RecorderContext(config=config)
    made = call_plugin(RECORDER, _PLUGIN, context, option="metrics")
    return cast("Recorder | None", made)
