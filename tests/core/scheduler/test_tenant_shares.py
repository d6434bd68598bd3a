"""Fair queueing: tenants are served by their weights, whatever they send."""

import random

import msgspec
import pytest

from hookline.clock import VirtualClock
from hookline.config import CacheConfig, Policy, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.events import Preempted
from hookline.finish_cause import Aborted
from hookline.request import GenerateRequest, Request, RequestFacts
from hookline.stats.scheduler_stats import MOST_TENANTS, Residue, TenantStats
from hookline_fair.fair_queue import FairQueue
from hookline_fair.tenant_shares import MOST_IDLE, MOST_IDLE_TENANTS, TenantShares
from hookline_testing.essential import essential
from hookline_testing.simulation import engine_request, run_to_end, simulated_core


def of_tenant(
    request_id: int,
    tenant: str | None,
    *,
    prompt: int = 4,
    max_tokens: int = 4,
    weight: float = 1.0,
) -> GenerateRequest:
    return msgspec.structs.replace(
        engine_request(request_id, [3 + request_id % 900] * prompt, max_tokens),
        facts=RequestFacts(tenant=tenant, weight=weight),
    )


def of_client(
    request_id: int, payer: str, tenant: str, *, weight: float = 1.0
) -> GenerateRequest:
    """A request as a server sends it, which has found out who pays."""
    return msgspec.structs.replace(
        engine_request(request_id, [3 + request_id % 900] * 4, 4),
        facts=RequestFacts(tenant=tenant, client=(payer, tenant), weight=weight),
    )


def fair_core(*, max_num_seqs: int = 4, num_kv_blocks: int = 256) -> EngineCore:
    return simulated_core(
        cache=CacheConfig(
            block_size=4, num_kv_blocks=num_kv_blocks, enable_prefix_caching=False
        ),
        scheduler=SchedulerConfig(policy=Policy.FAIR, max_num_seqs=max_num_seqs),
        max_model_len=128,
    )


def served(core: EngineCore, tenant_of: dict[int, str], steps: int) -> dict[str, int]:
    """Output tokens of each tenant in a number of steps."""
    found: dict[str, int] = {}
    for _ in range(steps):
        for event in core.step().events.new_tokens:
            tenant = tenant_of[event.request_id]
            found[tenant] = found.get(tenant, 0) + len(event.token_ids)
    return found


def admissions(core: EngineCore) -> list[int]:
    outputs = run_to_end(core)
    return [each.request_id for output in outputs for each in output.events.scheduled]


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        ({"a": 1.0, "b": 1.0}, {"a": 0.5, "b": 0.5}),
        ({"a": 3.0, "b": 1.0}, {"a": 0.75, "b": 0.25}),
        ({"a": 1.0, "b": 2.0, "c": 5.0}, {"a": 0.125, "b": 0.25, "c": 0.625}),
    ],
)
def test_backlogged_tenants_are_served_by_weight(
    weights: dict[str, float], shares: dict[str, float]
) -> None:
    """All send the same requests, the first one ten times as many."""
    core = fair_core(max_num_seqs=8)
    tenants: dict[int, str] = {}
    for tenant, weight in weights.items():
        for _ in range(3000 if tenant == "a" else 600):
            tenants[len(tenants) + 1] = tenant
            core.add(of_tenant(len(tenants), tenant, weight=weight))

    found = served(core, tenants, 300)

    total = sum(found.values())
    assert total > 2000
    for tenant, share in shares.items():
        assert found[tenant] / total == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_claimed_tenants_share_their_payers_turns(weight: float) -> None:
    """
    A payer that claims many tenants, also those of another, has its own share.
    """
    core = fair_core(max_num_seqs=8)
    payers: dict[int, str] = {}
    for index in range(1, 2001):
        payers[index] = payer = "honest" if index % 4 == 0 else "hostile"
        tenant = "" if payer == "honest" else f"claimed-{index}"
        core.add(
            of_client(index, payer, tenant, weight=weight if payer == "honest" else 1.0)
        )

    found = served(core, payers, 200)

    share = found["honest"] / sum(found.values())
    assert share == pytest.approx(weight / (weight + 1), abs=0.03)


def test_tenants_of_one_payer_take_turns() -> None:
    """
    One that sends a hundred times as much delays the others of its key by a turn.
    """
    core = fair_core(max_num_seqs=1)
    for index in range(1, 101):
        core.add(of_client(index, "key", "flood"))
    core.add(of_client(1000, "key", "guest"))

    order = admissions(core)

    assert 1000 in order[:3]


def test_claims_make_no_other_payer_forgotten() -> None:
    """
    Idle tenants are remembered for each payer by themselves.
    """
    shares = TenantShares()

    def came_and_went(index: int, payer: str, tenant: str) -> float:
        inner = of_client(index, payer, tenant)
        request = Request(inner, sequence=index, queued_at=0, max_tokens=1)
        shares.arrived(request)
        found = shares.of(request)
        found.charge(5.0)
        shares.ended(request)
        return found.payer.virtual_time

    first = came_and_went(1, "honest", "mine")
    for index in range(2, 3 * MOST_IDLE):
        hostile = came_and_went(index, "hostile", f"claimed-{index}")

    assert came_and_went(1, "honest", "mine") == first + 5.0
    assert hostile == 5.0 * (3 * MOST_IDLE - 2)
    assert len(shares) == 2
    assert len(list(shares)) == MOST_IDLE_TENANTS + 1


def test_a_tenant_that_several_pay_for_is_reported_once() -> None:
    """
    With all of its requests, and the longest lag.
    """
    queue = FairQueue()
    for index, payer in enumerate(("a", "a", "b")):
        inner = of_client(index, payer, "same")
        request = Request(inner, sequence=index, queued_at=0, max_tokens=1)
        queue.arrived(request)
        queue.push(request)
    queue.served_prompt(request, 7)

    assert queue.stats() == {"same": TenantStats(waiting=3, lag_tokens=7.0)}


def test_long_requests_are_worth_as_many_short_ones() -> None:
    """Tokens are shared, not requests."""
    core = fair_core(max_num_seqs=8)
    tenants: dict[int, str] = {}
    for index in range(1, 1200):
        tenants[index] = "long" if index % 2 else "short"
        length = 40 if index % 2 else 4
        core.add(of_tenant(index, tenants[index], prompt=1, max_tokens=length))

    found = served(core, tenants, 400)

    assert found["long"] / found["short"] == pytest.approx(1.1, abs=0.2)


def test_a_flood_does_not_delay_another_tenant() -> None:
    """A newcomer's request is the next to be admitted after at most one more."""
    core = fair_core(max_num_seqs=2)
    for index in range(1, 501):
        core.add(of_tenant(index, "flood"))
    for _ in range(40):
        core.step()
    core.add(of_tenant(1000, "guest"))

    order = admissions(core)

    assert 1000 in order[:2]


def test_within_a_tenant_the_order_is_that_of_arrival() -> None:
    """Requests without a tenant are one tenant, too."""
    core = fair_core(max_num_seqs=1)
    for index, tenant in enumerate(["a", None, "a", None, "a", None], 1):
        core.add(of_tenant(index, tenant))

    order = admissions(core)

    assert [each for each in order if each % 2] == [1, 3, 5]
    assert [each for each in order if not each % 2] == [2, 4, 6]


def test_an_idle_tenant_does_not_save_up() -> None:
    """After a pause it takes turns; it does not get all places at once."""
    core = fair_core(max_num_seqs=1)
    core.add(of_tenant(1, "sleeper"))
    run_to_end(core)
    for index in range(2, 200):
        core.add(of_tenant(index, "busy"))
    for _ in range(200):
        core.step()
    for index in range(1001, 1021):
        core.add(of_tenant(index, "sleeper"))

    order = admissions(core)[:20]

    assert 9 <= sum(each > 1000 for each in order) <= 11


def test_the_most_served_tenant_is_preempted() -> None:
    """Its latest request gives up its blocks, though another tenant's came later."""
    core = fair_core(max_num_seqs=4, num_kv_blocks=32)
    core.add(of_tenant(1, "big", prompt=50, max_tokens=60))
    core.add(of_tenant(2, "big", prompt=40, max_tokens=60))
    core.step()
    core.add(of_tenant(3, "small", prompt=10, max_tokens=60))

    victims = [each.request_id for each in core_preemptions(core)]

    assert victims
    assert victims[0] == 2


def core_preemptions(core: EngineCore) -> list[Preempted]:
    outputs = run_to_end(core)
    return [each for output in outputs for each in output.events.preempted]


@pytest.mark.parametrize("seed", essential(range(4), 0, 3, slow=[1, 2]))
def test_random_traffic_is_fair_and_starves_no_one(seed: int) -> None:
    """Backlogged tenants stay together within what they can have in flight."""
    source = random.Random(seed)  # noqa: S311 - no secret
    core = fair_core(max_num_seqs=6, num_kv_blocks=48)
    names = ["a", "b", "c", None]
    tenants: dict[int, str] = {}
    cost: dict[str, float] = {}
    prompts: dict[int, int] = {}
    for _ in range(1500):
        name = source.choice(names)
        request_id = len(tenants) + 1
        tenants[request_id] = name or ""
        prompts[request_id] = source.randint(1, 30)
        core.add(
            of_tenant(
                request_id,
                name,
                prompt=prompts[request_id],
                max_tokens=source.randint(1, 30),
            )
        )
        if source.random() < 0.05:
            core.finish([source.randint(1, request_id)], Aborted("the test"))
    for _ in range(600):
        output = core.step()
        for begun in output.events.scheduled:
            if not begun.is_resumed:
                name = tenants[begun.request_id]
                cost[name] = cost.get(name, 0) + prompts[begun.request_id]
        for event in output.events.new_tokens:
            cost[tenants[event.request_id]] += 2 * len(event.token_ids)

    # What a tenant can be ahead: what all places can still generate for it.
    assert max(cost.values()) - min(cost.values()) <= 6 * (30 + 2 * 30)
    run_to_end(core)
    stats = core.report("check").stats
    assert stats.totals.residue == Residue()
    assert sum(stats.totals.finished.values()) == 1500


def test_lag_and_waiting_requests_are_reported() -> None:
    """The waiting tenant served most has no lag."""
    core = fair_core(max_num_seqs=1)
    for index in range(1, 9):
        core.add(of_tenant(index, "a" if index < 6 else "b"))
    for _ in range(6):
        core.step()

    tenants = core.report("check").stats.tenants

    assert set(tenants) == {"a", "b"}
    assert tenants["a"].waiting + tenants["b"].waiting == 6
    assert min(each.lag_tokens for each in tenants.values()) == 0.0
    run_to_end(core)
    assert core.report("check").stats.tenants == dict.fromkeys("ab", TenantStats())


def test_remembered_tenants_are_bounded() -> None:
    """Names come from clients: those idle for longest are forgotten."""
    shares = TenantShares()
    for index in range(3 * MOST_IDLE):
        request = request_of(index, f"tenant {index}")
        shares.arrived(request)
        shares.ended(request)

    assert len(shares) == MOST_IDLE
    assert shares.of(request_of(0, f"tenant {3 * MOST_IDLE - 1}")).num_live == 0


def test_reported_tenants_are_bounded() -> None:
    """An output does not grow with the number of tenants."""
    queue = FairQueue()
    for index in range(2 * MOST_TENANTS):
        request = request_of(index, f"tenant {index}")
        queue.arrived(request)
        queue.push(request)

    assert len(queue.stats()) == MOST_TENANTS


def test_many_tenants_that_leave_do_not_litter_the_queue() -> None:
    """Heaps of tenants are swept."""
    queue = FairQueue()
    stays = request_of(0, "stays")
    queue.arrived(stays)
    queue.push(stays)
    for index in range(1, 5000):
        request = request_of(index, f"tenant {index}")
        queue.arrived(request)
        queue.push(request)
        queue.remove(request)
        queue.ended(request)

    assert len(queue._waiting) < 3 * MOST_IDLE
    assert queue.peek() is stays


def request_of(index: int, tenant: str) -> Request:
    return Request(of_tenant(index, tenant), sequence=index, queued_at=0, max_tokens=1)


def test_the_clock_does_not_matter() -> None:
    """Order follows from tokens, not from time."""
    clock = VirtualClock()
    core = simulated_core(
        clock=clock, scheduler=SchedulerConfig(policy=Policy.FAIR, max_num_seqs=1)
    )
    for index in range(1, 5):
        core.add(of_tenant(index, "a" if index < 4 else "b"))
        clock.sleep(100.0)

    assert admissions(core)[:2] in ([1, 4], [4, 1])
