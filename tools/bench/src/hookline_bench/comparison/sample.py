"""What a result file holds: values of single requests, and numbers of the whole run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Benchmark(StrEnum):
    """The benchmark that wrote a file, or a recording of an engine."""

    SERVE = "serve"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    STARTUP = "startup"
    RECORDING = "recording"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A metric's values, one for each request, batch or start; less is better.

    Attributes:
        metric: Its name in reports.
        phase: Part of the request's life that it measures.
        unit: Unit of the values.
        least: Smallest difference that matters; what is below it is jitter of timers
            and of event loops.
        is_share: Whether values are only 0 or 100 %, of which percentiles say nothing.
    """

    metric: str
    phase: str
    unit: str
    values: Sequence[float]
    least: float = 0.0
    is_share: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The content of a result file that can be compared.

    Attributes:
        conditions: The settings of the run that the file names.
        totals: Numbers of which a run has only one, by their names in reports.
    """

    benchmark: Benchmark
    samples: tuple[Sample, ...]
    conditions: Mapping[str, object] = field(default_factory=dict)
    totals: Mapping[str, float] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """What it was read from, in words."""
        if self.benchmark is Benchmark.RECORDING:
            return "a recording"
        return f"a result of `bench {self.benchmark}`"
