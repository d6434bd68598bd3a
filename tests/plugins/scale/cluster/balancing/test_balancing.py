"""Balancers choose engines by load, in turns, or by what engines have cached."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from hookline.config import CacheConfig, HashAlgorithm
from hookline.engine.kv_cache.hashing import BlockHasher
from hookline.events import BlocksRemoved, BlocksStored, CacheChanges, CacheCleared
from hookline.payloads import EngineFacts
from hookline.request import GenerateRequest
from hookline.sampling_params import SamplingParams
from hookline_cluster.balancing.balancer import Balancer
from hookline_cluster.balancing.choice import Choice, Reason
from hookline_cluster.balancing.making import make_balancer
from hookline_cluster.balancing.prefix import LEEWAY, MOST_TOKENS
from hookline_cluster.balancing.prefix_view import PrefixView
from hookline_cluster.config import LoadBalancing
from hookline_server.turns import Turns
from hookline_testing.payloads import make_started

BLOCK = 16
NUM_BLOCKS = 64


@dataclass
class Engine:
    """An engine that may be chosen."""

    index: int
    load: int = 0


def facts(index: int) -> EngineFacts:
    known = make_started().facts
    return replace(
        known,
        model=replace(known.model, num_kv_blocks=NUM_BLOCKS),
        engine_index=index,
        block_size=BLOCK,
    )


def balancer(balancing: LoadBalancing, engines: int = 2) -> Balancer:
    return make_balancer(balancing, {index: facts(index) for index in range(engines)})


def prompt(*blocks: int, salt: str | None = None) -> GenerateRequest:
    """A prompt of full blocks, each of one token id, and one token more."""
    token_ids = [each for each in blocks for _ in range(BLOCK)]
    return GenerateRequest(
        prompt_token_ids=[*token_ids, 1], params=SamplingParams(), cache_salt=salt
    )


def hashes(*blocks: int) -> list[bytes]:
    """The hashes that engines give these blocks."""
    found: list[bytes] = []
    hasher = BlockHasher(BLOCK, HashAlgorithm(CacheConfig().hash_algorithm))
    tokens = prompt(*blocks).prompt_token_ids
    hasher.extend(found, tokens, adapter=None, cache_salt=None)
    return found


def chosen(
    of: Balancer, engines: Sequence[Engine], prompts: Sequence[GenerateRequest]
) -> list[Choice]:
    return [of.choose(engines, each) for each in prompts]


def test_score_takes_the_least_load_and_equals_take_turns() -> None:
    """A load of 1 is more than none; three without any have one request each."""
    score = balancer(LoadBalancing.SCORE, 4)
    engines = [Engine(0), Engine(1), Engine(2), Engine(3, load=1)]

    found = chosen(score, engines, [prompt(5)] * 4)

    assert [index for index, _ in found] == [0, 1, 2, 0]
    assert {reason for _, reason in found} == {Reason.LOAD}


def test_round_robin_ignores_loads() -> None:
    """Each in turn; one that comes back after a while is next."""
    turns = balancer(LoadBalancing.ROUND_ROBIN, 3)
    engines = [Engine(0, load=90), Engine(1), Engine(2)]

    found = chosen(turns, engines, [prompt(5)] * 4)
    found += chosen(turns, engines[:2], [prompt(5)] * 4)
    found += chosen(turns, engines, [prompt(5)])

    assert [index for index, _ in found] == [0, 1, 2, 0, 1, 0, 1, 0, 2]
    assert {reason for _, reason in found} == {Reason.TURN}


def test_equal_prefixes_meet_on_one_engine() -> None:
    """Whoever had a group's first request gets the others; new groups take turns."""
    prefix = balancer(LoadBalancing.PREFIX)
    groups = [[prompt(group, 50 + member) for group in range(4)] for member in range(3)]

    found = [chosen(prefix, [Engine(0), Engine(1)], each) for each in groups]

    assert found[0] == [(index, Reason.LOAD) for index in (0, 1, 0, 1)]
    assert found[1] == [(index, Reason.PREFIX) for index in (0, 1, 0, 1)]
    assert found[2] == found[1]


def test_the_longest_prefix_wins() -> None:
    """Of two engines that know the beginning, the one that knows more of it."""
    prefix = balancer(LoadBalancing.PREFIX)
    engines = [Engine(0), Engine(1)]
    prefix.sent(0, prompt(1, 2))
    prefix.sent(1, prompt(1, 2, 3))

    found = chosen(prefix, engines, [prompt(1, 2, 3, 4), prompt(1, 2, 3)])

    assert found == [(1, Reason.PREFIX)] * 2


@pytest.mark.parametrize(
    ("loads", "choice"),
    [
        ((LEEWAY, 0), (0, Reason.PREFIX)),
        ((LEEWAY + 1, 0), (1, Reason.SPILL)),
        ((LEEWAY + 1, 1), (0, Reason.PREFIX)),
        ((60, 40), (0, Reason.PREFIX)),
        ((61, 40), (1, Reason.SPILL)),
    ],
)
def test_a_prefix_is_followed_within_a_leeway(
    loads: tuple[int, int], choice: tuple[int, Reason]
) -> None:
    """Four waiting requests more than the least load, or half of that, are worth it."""
    prefix = balancer(LoadBalancing.PREFIX)
    prefix.sent(0, prompt(1, 2, 3))

    found = chosen(
        prefix, [Engine(i, load=loads[i]) for i in (0, 1)], [prompt(1, 2, 3)]
    )

    assert found == [choice]


def test_a_short_prefix_is_worth_less_load() -> None:
    """A quarter of the prompt is worth a quarter of the leeway."""
    prefix = balancer(LoadBalancing.PREFIX)
    prefix.sent(0, prompt(1))
    tail = (6, 7, 8)

    near = chosen(prefix, [Engine(0, load=4), Engine(1)], [prompt(1, *tail)])
    prefix.cache_lost(0)
    prefix.sent(0, prompt(1))
    far = chosen(prefix, [Engine(0, load=5), Engine(1)], [prompt(1, *tail)])

    assert (near, far) == ([(0, Reason.PREFIX)], [(1, Reason.SPILL)])


def test_what_spills_is_cached_there_as_well() -> None:
    """A group too large for one engine then has two, by their loads."""
    prefix = balancer(LoadBalancing.PREFIX)
    prefix.sent(0, prompt(1, 2))

    spilled = chosen(prefix, [Engine(0, load=99), Engine(1)], [prompt(1, 2)])
    next_one = chosen(prefix, [Engine(0, load=7), Engine(1, load=8)], [prompt(1, 2)])

    assert spilled == [(1, Reason.SPILL)]
    assert next_one == [(0, Reason.PREFIX)]


def test_salts_share_nothing() -> None:
    """As in the engines' caches."""
    prefix = balancer(LoadBalancing.PREFIX)
    prefix.sent(1, prompt(1, 2, salt="theirs"))

    assert chosen(prefix, [Engine(0), Engine(1)], [prompt(1, 2, salt="ours")]) == [
        (0, Reason.LOAD)
    ]


def test_short_prompts_are_placed_by_load() -> None:
    """Less than a block is never cached."""
    prefix = balancer(LoadBalancing.PREFIX)

    found = chosen(prefix, [Engine(0, load=3), Engine(1)], [prompt()] * 2)

    assert found == [(1, Reason.LOAD)] * 2


def test_only_the_beginning_of_a_long_prompt_is_hashed() -> None:
    """Prompts that differ behind it count as equal."""
    prefix = balancer(LoadBalancing.PREFIX)
    common = [5] * (MOST_TOKENS // BLOCK)
    prefix.sent(1, prompt(*common, 6))

    found = chosen(prefix, [Engine(0), Engine(1)], [prompt(*common, 7)])

    assert found == [(1, Reason.PREFIX)]


def test_reports_of_caches_are_followed() -> None:
    """Engines' own hashes are those of the view: stored, removed and cleared."""
    prefix = balancer(LoadBalancing.PREFIX)
    engines = [Engine(0), Engine(1)]
    stored = BlocksStored(hashes(1, 2), None, [])
    removed = BlocksRemoved(hashes(1, 2)[:1])

    prefix.cache_changed(1, CacheChanges(1, [stored]))
    first = prefix.choose(engines, prompt(1, 2, 3))
    prefix.cache_changed(1, CacheChanges(2, [removed]))
    second = prefix.choose(engines, prompt(1, 2, 3))
    prefix.cache_changed(0, CacheChanges(1, [CacheCleared()]))
    prefix.cache_changed(1, CacheChanges(3, [CacheCleared()]))
    third = prefix.choose(engines, prompt(1, 2, 3))

    assert first == Choice(1, Reason.PREFIX)
    assert second.reason is Reason.LOAD
    assert third.reason is Reason.LOAD


def test_the_view_is_as_large_as_the_cache() -> None:
    """The least recently used blocks go first, of a prompt the last ones."""
    view = PrefixView({0: 4, 1: 4})
    old, new = hashes(1, 2, 3), hashes(7, 8)

    view.add(0, old)
    view.add(0, new)
    found = [view.num_cached(each) for each in (old, new)]
    view.clear(0)

    assert found == [{0: 2, 1: 0}, {0: 2, 1: 0}]
    assert view.num_cached(new) == {0: 0, 1: 0}


def test_turns_order_by_load_first() -> None:
    """Then by the last choice, whoever made it."""
    turns: Turns[str] = Turns()
    load = {"a": 1, "b": 0, "c": 0}.__getitem__

    turns.chosen("b")

    assert [turns.least("abc", load) for _ in range(3)] == ["c", "b", "c"]
    assert [turns.next("abc") for _ in range(3)] == ["a", "b", "c"]
