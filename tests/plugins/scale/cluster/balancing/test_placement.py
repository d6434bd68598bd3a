"""Requests are placed on engines that work, and the reasons are counted."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError, EngineDeadError, RequestError
from hookline.frontend.engine_set import EngineState
from hookline.frontend.engine_vitals import Stall

MakeLLM = Callable[..., LLM]
GREEDY = SamplingParams(temperature=0.0, max_tokens=2)
LONG = [5] * 64


@pytest.fixture
def make_llm() -> Iterator[MakeLLM]:
    """Makes two simulated engines in this process, which take turns."""
    made: list[LLM] = []

    def make(**options: Any) -> LLM:
        llm = LLM(
            executor="simulated", data_parallel_size=2, in_process=True, **options
        )
        made.append(llm)
        return llm

    yield make
    for each in made:
        each.close()


def place(llm: LLM, to: int | None = None) -> EngineState:
    """Places a request, without sending it."""
    return llm.front_end.router.place(llm.front_end.prepare(LONG, GREEDY), to)


def reasons(llm: LLM) -> dict[tuple[str, str], int]:
    return {
        (engine, reason): count
        for engine, reason, count in llm.front_end.router.stats.requests
    }


def test_prefixes_stay_with_their_engine(make_llm: MakeLLM) -> None:
    """Whatever comes between; the cache's hits are those of one engine."""
    llm = make_llm(load_balancing="prefix")
    groups = [[10 + group] * 64 for group in range(3)]

    hits = 0
    for number in range(4):
        for group in groups:
            [output] = llm.generate([[*group, number]], GREEDY, use_tqdm=False)
            hits += output.cached_tokens

    counts = reasons(llm)
    assert sum(counts.values()) == 12
    assert counts["0", "prefix"] + counts["1", "prefix"] == 9
    assert all(each.stats.totals.received for each in llm.front_end.engines)
    assert hits == 9 * 64


@pytest.mark.parametrize("forget", [LLM.reset_prefix_cache, LLM.sleep])
def test_nothing_is_cached_after_a_reset_or_a_sleep(
    make_llm: MakeLLM, forget: Callable[[LLM], object]
) -> None:
    """The next request is placed by load."""
    llm = make_llm(load_balancing="prefix")
    llm.generate([LONG], GREEDY, use_tqdm=False)

    forget(llm)
    place(llm)

    assert reasons(llm) == {("0", "load"): 1, ("1", "load"): 1}


def test_generated_tokens_count_if_engines_report_them(make_llm: MakeLLM) -> None:
    """A next turn, which repeats the reply, is known to be cached as a whole."""
    events = {"enable_kv_cache_events": True, "publisher": "null"}
    llm = make_llm(load_balancing="prefix", kv_events_config=events)
    params = SamplingParams(temperature=0.0, max_tokens=65, ignore_eos=True)
    [output] = llm.generate([[7] * 16], params, use_tqdm=False)
    reply = list(output.outputs[0].token_ids)
    for other in llm.front_end.engines:  # the engine with more load is chosen
        if other.stats.totals.received:
            other.vitals.unheard.extend([0] * 15)

    llm.front_end.router.place(llm.front_end.prepare([*[7] * 16, *reply[:64]], GREEDY))

    assert [reason for _, reason in reasons(llm)] == ["load", "prefix"]


def test_sick_and_sleeping_engines_are_left_out(make_llm: MakeLLM) -> None:
    """A sleeping one is better than one that has stalled; one at least is chosen."""
    llm = make_llm()
    first, second = llm.front_end.engines
    first.stall = Stall("it sends nothing", 1.0, is_final=False)

    healthy = [place(llm) for _ in range(2)]
    llm.sleep()
    asleep = place(llm)
    second.stall = first.stall
    neither = {place(llm).index for _ in range(2)}

    assert healthy == [second] * 2
    assert asleep is second
    assert neither == {0, 1}
    assert reasons(llm)["1", "only"] == 3


def test_an_engine_that_drains_gets_no_new_requests(make_llm: MakeLLM) -> None:
    """Unless all do."""
    llm = make_llm()
    first, second = llm.front_end.engines

    first.is_leaving = True
    chosen = [place(llm) for _ in range(3)]
    second.is_leaving = True
    rest = {place(llm).index for _ in range(4)}

    assert chosen == [second] * 3
    assert rest == {0, 1}


def test_a_named_engine_is_taken_or_refused(make_llm: MakeLLM) -> None:
    """One that does not exist is the client's mistake, one that has died is not."""
    llm = make_llm()
    first, second = llm.front_end.engines

    found = [place(llm, to=1), place(llm, to=0), place(llm, to=1)]
    first.mark_ended("it broke")

    assert found == [second, first, second]
    with pytest.raises(EngineDeadError, match="it broke"):
        place(llm, to=0)
    for wrong in (-1, 2):
        with pytest.raises(RequestError, match="rank must be 0 to 1"):
            place(llm, to=wrong)
    assert reasons(llm) == {("0", "named"): 1, ("1", "named"): 2}


def test_balancing_by_prefix_needs_the_prefix_cache() -> None:
    """Without one nothing is ever cached."""
    with pytest.raises(ConfigError, match="load-balancing: prefix requires"):
        EngineConfig.from_options(load_balancing="prefix", enable_prefix_caching=False)
