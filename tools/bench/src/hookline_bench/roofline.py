"""When a batch saturates an engine: fitted to its steps, and by the machine's peaks.

Below B_sat a step waits for the weights, so that its time is flat and more requests are
free. Above it, it waits for the arithmetic, and its time grows with each request.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hookline.step import ModelCost

CANDIDATES_PER_GAP = 16
"""Places between two batch sizes at which the fitted line may bend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measured batch size.

    Attributes:
        batch_size: Number of requests that decode together.
        seconds: Duration of a step, which is the time between two tokens.
    """

    batch_size: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Tokens of all requests together."""
        return self.batch_size / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Bend:
    """A flat line that rises from some batch size on.

    Attributes:
        batch_size: B_sat.
        flat: Seconds of a step up to there.
        slope: Seconds for each further request.
    """

    batch_size: float
    flat: float
    slope: float

    def seconds(self, batch_size: float) -> float:
        """Returns the duration of a step."""
        return self.flat + self.slope * max(0.0, batch_size - self.batch_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """What the machine reaches at best with the model's data type.

    Attributes:
        flops: Floating-point operations per second.
        bytes: Bytes of weights read per second.
    """

    flops: float
    bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The least time of decode steps by the machine's peaks.

    Attributes:
        cost: FLOPs and bytes of the model.
        peaks: The machine's.
        context: Tokens that each request attends to.
    """

    cost: ModelCost
    peaks: Peaks
    context: float

    @property
    def _bytes_of_each(self) -> float:
        return self.cost.kv_bytes_per_token * self.context

    @property
    def _flops_of_each(self) -> float:
        cost = self.cost
        attention = cost.flops_per_pair * self.context
        return cost.flops_per_token + cost.flops_per_sample + attention

    def seconds(self, batch_size: float) -> float:
        """Returns the duration of a step: of its bytes or of its FLOPs."""
        moved = self.cost.weight_bytes + self._bytes_of_each * batch_size
        computed = self._flops_of_each * batch_size
        return max(moved / self.peaks.bytes, computed / self.peaks.flops)

    @property
    def saturated_at(self) -> float | None:
        """B_sat; None if memory bounds all batches, because of their contexts."""
        each = self._flops_of_each / self.peaks.flops
        each -= self._bytes_of_each / self.peaks.bytes
        if each <= 0:
            return None
        return self.cost.weight_bytes / self.peaks.bytes / each


def fitted_bend(points: Sequence[Point]) -> Bend | None:
    """Returns the bent line with the least relative errors.

    None if it cannot be told: with fewer than three sizes, or if no step of them is
    longer than the first ones.
    """
    ordered = sorted(points, key=lambda point: point.batch_size)
    if len(ordered) < 3:
        return None
    found = [_fit(ordered, at) for at in _candidates(ordered)]
    _, best = min(found, key=lambda each: each[0])
    last = ordered[-1].batch_size
    grows = best.slope * (last - best.batch_size) > 0.1 * best.flat
    return best if grows else None


def _candidates(ordered: Sequence[Point]) -> list[float]:
    sizes = [point.batch_size for point in ordered[:-1]]
    later = [point.batch_size for point in ordered[1:]]
    return [
        low * (high / low) ** (step / CANDIDATES_PER_GAP)
        for low, high in zip(sizes, later, strict=True)
        for step in range(CANDIDATES_PER_GAP)
    ]


def _fit(points: Sequence[Point], at: float) -> tuple[float, Bend]:
    """Returns the squared relative errors of the best line that bends there."""
    # Normal equations of t = flat + slope · x, each weighted by 1 / t².
    weight = flat_x = xx = one = xt = 0.0
    for point in points:
        x, w = max(0.0, point.batch_size - at), 1 / point.seconds**2
        weight += w
        flat_x += w * x
        xx += w * x * x
        one += w * point.seconds
        xt += w * x * point.seconds
    determinant = weight * xx - flat_x * flat_x
    slope = (weight * xt - flat_x * one) / determinant if determinant > 0 else 0.0
    slope = max(slope, 0.0)
    bend = Bend(batch_size=at, flat=(one - slope * flat_x) / weight, slope=slope)
    errors = (1 - bend.seconds(each.batch_size) / each.seconds for each in points)
    return sum(error * error for error in errors), bend
