"""Shows a recorder's snapshot to prometheus_client."""

from collections.abc import Iterable
from itertools import accumulate

from prometheus_client import Metric

from hookline.metrics import Family, HistogramValue, Kind, Recorder


class CatalogueCollector:
    """A custom collector: keeps nothing, and makes no `_created` series."""

    def __init__(self, recorder: Recorder, dialects: tuple[str, ...]) -> None:
        self._recorder = recorder
        self._dialects = dialects

    def collect(self) -> Iterable[Metric]:
        for family in self._recorder.snapshot(*self._dialects):
            if family.samples:
                yield _metric(family)


def _metric(family: Family) -> Metric:
    # OpenMetrics allows a unit only where the name ends with it.
    unit = family.unit if family.name.endswith(f"_{family.unit}") else ""
    metric = Metric(family.name, family.help, family.kind.value, unit)
    suffix = "_total" if family.kind is Kind.COUNTER else ""
    for sample in family.samples:
        labels = dict(zip(family.label_names, sample.labels, strict=True))
        if isinstance(sample.value, HistogramValue):
            _add_histogram(metric, labels, sample.value)
        else:
            metric.add_sample(f"{family.name}{suffix}", labels, sample.value)
    return metric


def _add_histogram(
    metric: Metric, labels: dict[str, str], value: HistogramValue
) -> None:
    name = f"{metric.name}_bucket"
    cumulative = list(accumulate(value.counts))
    limits = (*(str(float(bound)) for bound in value.bounds), "+Inf")
    for limit, count in zip(limits, cumulative, strict=True):
        metric.add_sample(name, {**labels, "le": limit}, count)
    metric.add_sample(f"{metric.name}_count", labels, cumulative[-1])
    metric.add_sample(f"{metric.name}_sum", labels, value.sum)
