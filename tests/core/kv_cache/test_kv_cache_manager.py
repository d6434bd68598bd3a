"""The cache manager: which requests share blocks, and when they get some."""

from collections.abc import Sequence

import pytest

from hookline.clock import VirtualClock
from hookline.config import CacheConfig, HashAlgorithm
from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.request import Request
from hookline_testing.simulation import engine_request

ALGORITHMS = pytest.mark.parametrize("algorithm", list(HashAlgorithm))


def manager(
    num_blocks: int = 8, algorithm: HashAlgorithm = HashAlgorithm.SHA256
) -> KVCacheManager:
    config = CacheConfig(block_size=2, hash_algorithm=algorithm)
    return KVCacheManager(config, num_blocks, VirtualClock())


def request(
    prompt: Sequence[int],
    *,
    lora: str | None = None,
    cache_salt: str | None = None,
    prompt_logprobs: int | None = None,
) -> Request:
    inner = engine_request(
        1, prompt, lora=lora, cache_salt=cache_salt, prompt_logprobs=prompt_logprobs
    )
    return Request(inner, sequence=1, queued_at=0, max_tokens=1)


def computed(cache: KVCacheManager, prompt: Sequence[int], **keys: str) -> Request:
    """A request whose whole prompt is in the cache; it holds its blocks."""
    made = request(prompt, lora=keys.get("lora"), cache_salt=keys.get("cache_salt"))
    assert cache.allocate(made, [], len(prompt))
    cache.cache_full_blocks(made, len(prompt))
    return made


@ALGORITHMS
def test_full_blocks_of_a_running_request_are_shared(algorithm: HashAlgorithm) -> None:
    """A prefix is found as soon as its blocks are cached, held or not."""
    cache = manager(algorithm=algorithm)
    first = computed(cache, [1, 2, 3, 4, 5])

    second = request([1, 2, 3, 4, 9])
    found = cache.find_prefix(second)

    assert found == first.block_ids[:2]
    assert cache.allocate(second, found, 1)
    assert second.num_computed_tokens == 4
    assert [cache.pool.references(block_id) for block_id in second.block_ids] == [
        2,
        2,
        1,
    ]


def test_last_token_is_always_left_to_compute() -> None:
    """A prompt that is cached as a whole computes its last block again."""
    cache = manager()
    first = computed(cache, [1, 2, 3, 4])

    found = cache.find_prefix(request([1, 2, 3, 4]))

    assert found == first.block_ids[:1]


def test_prefix_ends_at_the_first_missing_block() -> None:
    """Blocks behind a gap are not found, since K and V depend on all before them."""
    cache = manager()
    cache.free(computed(cache, [1, 2, 3, 4, 5, 6, 7]))
    computed(cache, [1, 2])

    taken = cache.pool.allocate(cache.pool.num_free - 1)

    assert len(taken) == 6
    assert len(cache.find_prefix(request([1, 2, 3, 4, 5, 6, 7]))) == 1


@pytest.mark.parametrize(
    "keys", [{"lora": "other"}, {"cache_salt": "other"}], ids=["lora", "salt"]
)
def test_extra_keys_find_only_their_own(keys: dict[str, str]) -> None:
    """A request with another LoRA or salt finds nothing of the same tokens."""
    cache = manager()
    computed(cache, [1, 2, 3])
    own = computed(cache, [1, 2, 3], **keys)

    stranger = request([1, 2, 3], lora="third")
    twin = request([1, 2, 3], lora=keys.get("lora"), cache_salt=keys.get("cache_salt"))

    assert cache.find_prefix(stranger) == []
    assert cache.find_prefix(twin) == own.block_ids[:1]


def test_prompt_logprobs_skip_the_prefix_cache() -> None:
    """A request that wants prompt logprobs has every position computed."""
    cache = manager()
    computed(cache, [1, 2, 3, 4])

    assert cache.find_prefix(request([1, 2, 3, 4], prompt_logprobs=0)) == []


def test_disabled_prefix_cache_finds_and_keeps_nothing() -> None:
    """Without prefix caching no block is ever cached."""
    config = CacheConfig(block_size=2, enable_prefix_caching=False)
    cache = KVCacheManager(config, 8, VirtualClock())
    first = computed(cache, [1, 2, 3, 4])
    cache.free(first)

    assert cache.find_prefix(request([1, 2, 3, 4])) == []
    assert cache.pool.num_reusable == 0


def test_admission_wants_room_for_the_whole_prompt() -> None:
    """A first chunk that would fit alone is refused, and nothing is taken."""
    cache = manager(num_blocks=3)
    made = request([1, 2, 3, 4, 5, 6, 7])

    is_admitted = cache.allocate(made, [], 2)

    assert not is_admitted
    assert (cache.pool.num_used, made.block_ids, made.num_computed_tokens) == (0, [], 0)


def test_reusable_prefix_does_not_count_as_room() -> None:
    """A prefix that would leave the free list is not free for the rest as well."""
    cache = manager(num_blocks=3)
    cache.free(computed(cache, [1, 2, 3, 4]))
    made = request([1, 2, 3, 4, 5, 6, 7])
    prefix = cache.find_prefix(made)

    is_admitted = cache.allocate(made, prefix, 3)

    assert len(prefix) == 2
    assert not is_admitted
    assert (cache.pool.num_used, cache.pool.num_reusable) == (0, 2)


def test_growth_takes_blocks_only_when_one_is_full() -> None:
    """A block is added when the next token does not fit, and not before."""
    cache = manager()
    made = computed(cache, [1, 2, 3])
    made.num_computed_tokens = 3

    fits = cache.allocate_more(made, 1)
    made.num_computed_tokens = 4
    added = cache.allocate_more(made, 1)

    assert fits == []
    assert added == made.block_ids[2:]


def test_growth_without_room_changes_nothing() -> None:
    """Without enough free blocks it returns None, and the request keeps its blocks."""
    cache = manager(num_blocks=2)
    made = computed(cache, [1, 2, 3, 4])
    made.num_computed_tokens = 4

    assert cache.allocate_more(made, 1) is None
    assert len(made.block_ids) == 2


def test_released_request_starts_afresh() -> None:
    """Release gives all back and the same request finds its own prefix again."""
    cache = manager()
    made = computed(cache, [1, 2, 3, 4, 5])
    before = list(made.block_ids)

    cache.free(made)

    assert (made.block_ids, made.num_computed_tokens, made.num_hashed_blocks) == (
        [],
        0,
        0,
    )
    assert cache.find_prefix(made) == before[:2]


def test_reset_forgets_and_later_blocks_are_entered_again() -> None:
    """After a reset nothing is found until it is computed again."""
    cache = manager()
    cache.free(computed(cache, [1, 2, 3]))

    cache.pool.reset()
    found_after_reset = cache.find_prefix(request([1, 2, 3]))
    anew = computed(cache, [1, 2, 3])

    assert found_after_reset == []
    assert cache.find_prefix(request([1, 2, 3])) == anew.block_ids[:1]


def test_distrusted_blocks_are_not_found_but_proven_ones_are() -> None:
    """Who ended well has proved what it shares with a request that is corrupted."""
    cache = manager()
    good = computed(cache, [1, 2, 3, 4, 5])
    cache.prove(good)
    bad = request([1, 2, 3, 4, 6, 7, 8])
    assert cache.allocate(bad, cache.find_prefix(bad), 3)
    cache.cache_full_blocks(bad, 7)
    assert len(cache.find_prefix(request([1, 2, 3, 4, 6, 7, 9]))) == 3

    cache.distrust(bad)
    cache.free(bad)
    cache.free(good)

    assert len(cache.find_prefix(request([1, 2, 3, 4, 6, 7, 9]))) == 2
    assert cache.pool.num_used == 0


def test_a_block_is_proven_only_for_its_content() -> None:
    """Its next content has to be proved again, and the last token proves no block."""
    cache = manager(num_blocks=2)
    first = computed(cache, [1, 2, 3, 4])
    cache.prove(first)
    cache.free(first)
    assert len(cache.find_prefix(request([1, 2, 3, 4, 5]))) == 2
    second = computed(cache, [5, 6, 7, 8])

    cache.distrust(second)
    cache.free(second)

    assert cache.find_prefix(request([5, 6, 7, 8, 9])) == []


def test_what_a_preempted_request_has_left_is_distrusted() -> None:
    """Its result may come when its blocks are free again."""
    cache = manager()
    bad = computed(cache, [1, 2, 3, 4, 5])
    cache.free(bad)
    assert cache.pool.num_reusable == 2

    cache.distrust(bad)

    assert cache.find_prefix(request([1, 2, 3, 4, 5])) == []
    assert cache.pool.num_reusable == 0
    assert cache.pool.num_free == cache.pool.num_blocks
