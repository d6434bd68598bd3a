"""The metrics of offline work: throughput, and the time between tokens."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from contention import Neighbours


@dataclass(slots=True)
class Generation:
    """One call of an engine.

    Attributes:
        num_tokens: Number of generated tokens.
        step_times: When each step's output was there, in seconds of a monotonic clock;
            empty if the engine does not tell.
        seconds: Time of the whole call.
        own_seconds: Processor time of this process.
        elsewhere_seconds: Processor time of others that worked for it; None if it is
            not known.
    """

    num_tokens: int
    step_times: list[float]
    seconds: float = 0.0
    own_seconds: float = 0.0
    elsewhere_seconds: float | None = 0.0

    @property
    def processor_seconds(self) -> float | None:
        """Returns the processor time of all processes; None if it is not known."""
        if self.elsewhere_seconds is None:
            return None
        return self.own_seconds + self.elsewhere_seconds

    @property
    def gaps(self) -> list[float]:
        """Returns the seconds between outputs; the time to the first is no gap."""
        return [later - earlier for earlier, later in pairwise(self.step_times)]


def result_of(done: Sequence[Generation], prompt_tokens: int) -> dict[str, float]:
    """Returns the metrics of equal iterations: the median iteration's throughput.

    Args:
        done: The iterations.
        prompt_tokens: Number of prompt tokens of an iteration.
    """
    seconds = statistics.median(each.seconds for each in done)
    output = done[0].num_tokens
    return {
        "output tok/s": output / seconds,
        "total tok/s": (prompt_tokens + output) / seconds,
        "ms": seconds * 1000,
        **_processor_result(done),
        **gap_result(done),
    }


def _processor_result(done: Sequence[Generation]) -> dict[str, float]:
    """Returns the median iteration's processor time, if it is known."""
    found = [each.processor_seconds for each in done]
    known = [each for each in found if each is not None]
    return {"processor s": statistics.median(known)} if known else {}


def gap_result(done: Sequence[Generation]) -> dict[str, float]:
    """Returns the metrics of the time between steps; none without step times."""
    gaps = sorted(gap for each in done for gap in each.gaps)
    if not gaps:
        return {}
    median = statistics.median(gaps)
    return {
        "median ITL ms": 1000 * median,
        "p99 ITL ms": 1000 * gaps[min(len(gaps) - 1, len(gaps) * 99 // 100)],
        "longest ÷ median step": gaps[-1] / median,
    }


def beside_result(
    beside: Mapping[Neighbours, Sequence[Generation]], cores: int
) -> dict[str, float]:
    """Returns the metrics beside each kind of neighbours, named `NEIGHBOURS: METRIC`.

    Throughput is that of the whole measured time. `of quiet` is its ratio to the quiet
    throughput of the same run, `of share` the same over the share of the machine's time
    that a quota leaves, and `p99 ÷ quiet` the ratio of the 99th percentiles.

    Args:
        beside: What was generated beside each of them; the quiet run is among them.
        cores: Number of cores that the engine could use.
    """
    rates = {
        each: sum(one.num_tokens for one in done) / sum(one.seconds for one in done)
        for each, done in beside.items()
    }
    gaps = {each: gap_result(done) for each, done in beside.items()}
    found: dict[str, float] = {}
    for each, rate in rates.items():
        values = {"output tok/s": rate, **gaps[each]}
        if each is not Neighbours.QUIET:
            values |= _beside_quiet(each, rates, gaps, cores)
        found |= {f"{each.value}: {name}": value for name, value in values.items()}
    return found


def _beside_quiet(
    each: Neighbours,
    rates: Mapping[Neighbours, float],
    gaps: Mapping[Neighbours, Mapping[str, float]],
    cores: int,
) -> dict[str, float]:
    of_quiet = rates[each] / rates[Neighbours.QUIET]
    found = {"of quiet": of_quiet}
    if each.quota is not None:
        found["of share"] = of_quiet / each.share(cores)
    if gaps[each]:
        quiet = gaps[Neighbours.QUIET]["p99 ITL ms"]
        found["p99 ÷ quiet"] = gaps[each]["p99 ITL ms"] / quiet
    return found
