"""Random use of manager and pool, compared with a plain model of both."""

from collections.abc import Hashable

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from hookline.clock import VirtualClock
from hookline.config import CacheConfig, HashAlgorithm
from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.engine_setup.residency import MeasuredBlockPool
from hookline.request import Request
from hookline_testing.essential import examples
from hookline_testing.simulation import engine_request

TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=12)
KEYS = st.sampled_from([None, "a", "b"])

Content = tuple[Hashable, ...]
"""LoRA, cache salt and all tokens up to the end of a block."""


class PlainPool:
    """The pool as a list, two dictionaries and no cleverness."""

    def __init__(self, num_blocks: int) -> None:
        self.free = list(range(num_blocks))
        self.references = dict.fromkeys(range(num_blocks), 0)
        self.content: dict[int, Content] = {}
        self.evictions = 0

    def find(self, content: Content) -> int | None:
        return next(
            (key for key, value in self.content.items() if value == content), None
        )

    def take(self, count: int) -> list[int]:
        taken, self.free = self.free[:count], self.free[count:]
        for block_id in taken:
            self.references[block_id] = 1
            self.evictions += self.content.pop(block_id, None) is not None
        return taken

    def share(self, block_id: int) -> None:
        if self.references[block_id] == 0:
            self.free.remove(block_id)
        self.references[block_id] += 1

    def give_back(self, table: list[int]) -> None:
        for block_id in reversed(table):
            self.references[block_id] -= 1
            if self.references[block_id] == 0:
                self.free.append(block_id)


class CacheMachine(RuleBasedStateMachine):
    """Requests come, compute, grow and go in any order."""

    @initialize(
        block_size=st.integers(1, 4),
        num_blocks=st.integers(1, 12),
        algorithm=st.sampled_from(HashAlgorithm),
        sample=st.sampled_from([0.0, 0.5, 1.0]),
    )
    def start(
        self,
        *,
        block_size: int,
        num_blocks: int,
        algorithm: HashAlgorithm,
        sample: float,
    ) -> None:
        config = CacheConfig(block_size=block_size, hash_algorithm=algorithm)
        self.size = block_size
        self.sample = sample
        self.evictions = 0
        self.clock = VirtualClock()
        pool = None
        if sample > 0:
            pool = MeasuredBlockPool(num_blocks, share=sample, clock=self.clock)
        self.cache = KVCacheManager(config, num_blocks, self.clock, pool=pool)
        self.plain = PlainPool(num_blocks)
        self.tables: dict[int, list[int]] = {}
        self.requests: dict[int, Request] = {}
        self.arrivals = 0

    @rule(prompt=TOKENS, lora=KEYS, salt=KEYS, chunk=st.integers(1, 12))
    def admit(
        self, prompt: list[int], lora: str | None, salt: str | None, chunk: int
    ) -> None:
        self.arrivals += 1
        inner = engine_request(self.arrivals, prompt, lora=lora, cache_salt=salt)
        request = Request(inner, sequence=1, queued_at=0, max_tokens=1)
        expected = self.expected_prefix(request)
        missing = len(prompt) - len(expected) * self.size
        free = [block_id for block_id in self.plain.free if block_id not in expected]
        fits = self.blocks_for(len(prompt)) - len(expected) <= len(free)

        found = self.cache.find_prefix(request)
        is_admitted = self.cache.allocate(request, found, min(chunk, missing))

        assert found == expected
        assert is_admitted == fits
        if is_admitted:
            for block_id in expected:
                self.plain.share(block_id)
            self.requests[self.arrivals] = request
            self.tables[self.arrivals] = list(expected)
            self.add_blocks(request, min(chunk, missing))
            self.compute(request, min(chunk, missing))

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), chunk=st.integers(1, 6), token=st.integers(0, 1))
    def advance(self, data: st.DataObject, chunk: int, token: int) -> None:
        request = self.pick(data)
        if request.num_computed_tokens == request.num_tokens:
            request.token_ids.append(token)
        chunk = min(chunk, request.num_tokens - request.num_computed_tokens)
        wanted = self.blocks_for(request.num_computed_tokens + chunk)
        missing = wanted - len(self.tables[request.request_id])

        added = self.cache.allocate_more(request, chunk)

        if missing > len(self.plain.free):
            assert added is None
        else:
            assert added == self.add_blocks(request, chunk)
            self.compute(request, chunk)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), is_over=st.booleans())
    def release(self, data: st.DataObject, is_over: bool) -> None:
        request = self.pick(data)
        self.cache.free(request)
        self.plain.give_back(self.tables.pop(request.request_id))
        del self.requests[request.request_id]
        assert request.block_ids == []
        if not is_over:
            assert self.cache.find_prefix(request) == self.expected_prefix(request)

    @rule(seconds=st.integers(1, 5))
    def wait(self, seconds: int) -> None:
        self.clock.sleep(seconds)

    @rule()
    def reset(self) -> None:
        self.cache.pool.reset()
        self.plain.content.clear()

    @invariant()
    def agrees_with_the_plain_pool(self) -> None:
        if not hasattr(self, "cache"):
            return
        pool, plain = self.cache.pool, self.plain
        counted = {key: pool.references(key) for key in plain.references}
        assert counted == plain.references
        assert pool.num_free == len(plain.free)
        assert pool.num_used + pool.num_free == pool.num_blocks
        assert pool.num_references == sum(plain.references.values())
        assert pool.num_references == sum(map(len, self.tables.values()))
        assert pool.num_reusable == len(set(plain.content) & set(plain.free))

    @invariant()
    def evictions_are_told(self) -> None:
        """As many as there were, or a share of them; none lasts longer than time."""
        if not hasattr(self, "cache"):
            return
        pool = self.cache.pool
        measured, pool.measured = pool.measured, []
        self.evictions += len(measured)
        for eviction in measured:
            used = eviction.idle + sum(eviction.reuse_gaps)
            assert 0 <= eviction.idle <= eviction.lifetime <= self.clock.now()
            assert used <= eviction.lifetime
            assert len(eviction.reuse_gaps) <= 3
        assert self.evictions <= self.plain.evictions * (self.sample > 0)
        if self.sample == 1:
            assert self.evictions == self.plain.evictions

    @invariant()
    def shared_blocks_hold_the_same_prefix(self) -> None:
        if not hasattr(self, "cache"):
            return
        seen: dict[int, Content] = {}
        for request in self.requests.values():
            assert request.block_ids == self.tables[request.request_id]
            for index, block_id in enumerate(request.block_ids):
                content = self.content(request, index)
                assert seen.setdefault(block_id, content) == content
                if self.cache.pool.references(block_id) > 1:
                    assert (index + 1) * self.size <= request.num_computed_tokens

    def teardown(self) -> None:
        for request in getattr(self, "requests", {}).values():
            self.cache.free(request)
        if hasattr(self, "cache"):
            assert self.cache.pool.num_free == self.cache.pool.num_blocks
            assert self.cache.pool.num_references == 0

    # -- the plain model ----------------------------------------------------------

    def blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.size)

    def content(self, request: Request, index: int) -> Content:
        tokens = request.token_ids[: (index + 1) * self.size]
        return (request.facts.lora, request.inner.cache_salt, tuple(tokens))

    def expected_prefix(self, request: Request) -> list[int]:
        found: list[int] = []
        while (len(found) + 1) * self.size < request.num_tokens:
            block_id = self.plain.find(self.content(request, len(found)))
            if block_id is None:
                break
            found.append(block_id)
        return found

    def add_blocks(self, request: Request, chunk: int) -> list[int]:
        table = self.tables[request.request_id]
        wanted = self.blocks_for(request.num_computed_tokens + chunk)
        added = self.plain.take(max(0, wanted - len(table)))
        table += added
        return added

    def compute(self, request: Request, chunk: int) -> None:
        before = request.num_computed_tokens
        after = before + chunk
        self.cache.cache_full_blocks(request, after)
        request.num_computed_tokens = after
        for index in range(before // self.size, after // self.size):
            content = self.content(request, index)
            if self.plain.find(content) is None:
                self.plain.content[self.tables[request.request_id][index]] = content

    def pick(self, data: st.DataObject) -> Request:
        return self.requests[data.draw(st.sampled_from(sorted(self.requests)))]


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(
    max_examples=examples(300), stateful_step_count=40, deadline=None
)
