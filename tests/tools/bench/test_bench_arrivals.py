"""Arrival processes."""

import numpy as np
import pytest

from hookline.exceptions import ConfigError
from hookline_bench.arrivals import Arrivals, RampUp

COUNT = 20_000


def gaps(arrivals: Arrivals) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    times = arrivals.times(COUNT, np.random.default_rng(1))
    return np.diff(np.asarray([0.0, *times]))


def test_infinite_rate_sends_all_at_once() -> None:
    """
    Without a rate no request waits.
    """
    assert Arrivals().times(3, np.random.default_rng(0)) == [0, 0, 0]


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0, 100.0])
def test_rate_and_burstiness_are_as_asked_for(burstiness: float) -> None:
    """
    Gaps have the mean of the rate, and the spread of a gamma distribution: the square
    of the coefficient of variation is 1 ÷ burstiness.
    """
    found = gaps(Arrivals(request_rate=50.0, burstiness=burstiness))

    assert found.mean() == pytest.approx(1 / 50)
    assert (found.std() / found.mean()) ** 2 == pytest.approx(1 / burstiness, rel=0.1)


def test_burstiness_of_one_is_a_poisson_process() -> None:
    """
    The number of arrivals in a second has a variance like its mean.
    """
    times = Arrivals(request_rate=20.0).times(COUNT, np.random.default_rng(2))

    counts = np.bincount(np.asarray(times, dtype=np.int64))[:-1]

    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize(
    ("strategy", "middle"), [(RampUp.LINEAR, 20.5), (RampUp.EXPONENTIAL, 40**0.5)]
)
def test_ramp_goes_from_start_to_end(strategy: RampUp, middle: float) -> None:
    """
    The rate grows by equal steps or by equal factors, and the gaps follow it.
    """
    ramp = Arrivals(
        ramp_up_strategy=strategy, ramp_up_start_rps=1.0, ramp_up_end_rps=40.0
    )

    rates = ramp.rates(COUNT + 1)
    found = gaps(ramp)

    assert rates[0] == 1.0
    assert rates[-1] == pytest.approx(40.0)
    assert rates[COUNT // 2] == pytest.approx(middle)
    assert found[-COUNT // 100 :].mean() == pytest.approx(1 / 40, rel=0.3)
    assert found[: COUNT // 100].mean() == pytest.approx(1 / rates[100], rel=0.3)


def test_seed_repeats_the_arrivals() -> None:
    """
    The same seed makes the same arrivals, another one others.
    """
    arrivals = Arrivals(request_rate=3.0)

    first, again, other = (
        arrivals.times(5, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )

    assert first == again != other


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"request_rate": 0.0}, "request-rate"),
        ({"request_rate": float("nan")}, "request-rate"),
        ({"burstiness": 0.0}, "burstiness"),
        ({"ramp_up_start_rps": 1.0}, "ramp-up-strategy"),
        ({"ramp_up_strategy": RampUp.LINEAR}, "ramp-up-start-rps"),
        (
            {"ramp_up_strategy": RampUp.LINEAR, "ramp_up_start_rps": 1.0},
            "ramp-up-end-rps",
        ),
        (
            {
                "ramp_up_strategy": RampUp.LINEAR,
                "ramp_up_start_rps": 1.0,
                "ramp_up_end_rps": 2.0,
                "request_rate": 1.0,
            },
            "request-rate",
        ),
    ],
)
def test_impossible_arrivals_are_refused(given: dict[str, object], option: str) -> None:
    """
    What makes no arrival process names the option that is wrong.
    """
    with pytest.raises(ConfigError) as caught:
        Arrivals(**given)  # type: ignore[arg-type]

    assert caught.value.option == option
