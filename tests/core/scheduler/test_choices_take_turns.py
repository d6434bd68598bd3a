"""The choices of one client's request do not keep other requests waiting."""

import random

import msgspec
import pytest

from hookline.config import CacheConfig, Policy, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.finish_cause import Aborted
from hookline.request import GenerateRequest, RequestFacts
from hookline.stats.scheduler_stats import Residue
from hookline_testing.simulation import engine_request, run_to_end, simulated_core


def choice(
    request_id: int, client_id: str, *, max_tokens: int = 2, priority: int = 0
) -> GenerateRequest:
    return msgspec.structs.replace(
        engine_request(request_id, [3 + request_id % 900] * 2, max_tokens),
        facts=RequestFacts(client_id=client_id, priority=priority),
    )


def core_of(max_num_seqs: int, policy: Policy = Policy.FCFS) -> EngineCore:
    return simulated_core(
        cache=CacheConfig(num_kv_blocks=2048),
        scheduler=SchedulerConfig(max_num_seqs=max_num_seqs, policy=policy),
    )


def admissions(core: EngineCore) -> list[int]:
    outputs = run_to_end(core)
    return [each.request_id for output in outputs for each in output.events.scheduled]


@pytest.mark.parametrize("policy", Policy)
def test_later_requests_pass_the_choices_of_a_large_one(policy: Policy) -> None:
    """Nine requests of 100 choices each: a guest waits for one choice of each."""
    core = core_of(4, policy)
    for client in range(9):
        for index in range(100):
            core.add(choice(1 + 100 * client + index, f"large {client}"))
    for _ in range(10):
        core.step()
    core.add(choice(5000, "guest"))

    order = admissions(core)

    assert order.index(5000) <= 10
    assert len(order) > 800


def test_choices_alone_use_what_the_last_quarter_leaves() -> None:
    """One place in four is free for a request that comes, and taken by it at once."""
    core = core_of(16)
    for index in range(1, 101):
        core.add(choice(index, "large", max_tokens=40))
    first = core.step().record
    assert first is not None
    core.add(choice(5000, "guest"))

    then = core.step()

    assert len(first.request_tokens) == 13  # the first choice, and three quarters
    assert [each.request_id for each in then.events.scheduled] == [5000]


@pytest.mark.parametrize("places", [1, 2, 3])
def test_few_places_are_all_used(places: int) -> None:
    """There is at least one place for further choices."""
    core = core_of(places)
    for index in range(1, 7):
        core.add(choice(index, "large"))

    assert sorted(admissions(core)) == [1, 2, 3, 4, 5, 6]


def test_requests_with_one_choice_keep_the_order_of_arrival() -> None:
    """Whether they have ids or not."""
    core = core_of(1)
    for index in range(1, 20):
        core.add(choice(index, "" if index % 3 else f"id {index}"))

    assert admissions(core) == list(range(1, 20))


def test_choices_do_not_wait_for_ever() -> None:
    """A steady stream of requests passes each choice only once."""
    core = core_of(1)
    for index in range(1, 5):
        core.add(choice(index, "large", max_tokens=1))
    order = []
    for index in range(100, 400):
        core.add(choice(index, f"guest {index}", max_tokens=1))
        order += [each.request_id for each in core.step().events.scheduled]

    assert order.index(4) < 60


def test_a_line_whose_head_is_aborted_moves_on() -> None:
    """Nothing is lost when choices end while they queue, at random places."""
    source = random.Random(5)  # noqa: S311 - no secret
    core = core_of(3)
    live = list(range(1, 300))
    for index in live:
        core.add(choice(index, f"client {index % 7}"))
    for _ in range(150):
        victim = live.pop(source.randrange(len(live)))
        core.finish([victim], Aborted("the test"))
        if source.random() < 0.3:
            core.step()

    run_to_end(core)

    stats = core.report("check").stats
    assert sum(stats.totals.finished.values()) == 299
    assert (stats.waiting, stats.waiting_tokens, stats.totals.residue) == (
        0,
        0,
        Residue(),
    )


def test_an_id_that_is_used_again_does_not_mix_priorities() -> None:
    """An urgent request never queues behind another one for its id's sake."""
    core = core_of(1, Policy.PRIORITY)
    core.add(choice(1, "same", priority=0))
    core.add(choice(2, "same", priority=5))
    core.add(choice(3, "same", priority=-5))

    assert admissions(core) == [3, 1, 2]
