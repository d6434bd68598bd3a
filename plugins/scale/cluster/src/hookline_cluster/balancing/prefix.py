"""Balancing by prefix: the engine that has cached most of the prompt."""

from collections.abc import Mapping, Sequence

from hookline.config import HashAlgorithm
from hookline.engine.kv_cache.hashing import BlockHasher
from hookline.events import CacheChanges
from hookline.payloads import EngineFacts
from hookline.request import GenerateRequest
from hookline_cluster.balancing.balancer import Candidate
from hookline_cluster.balancing.choice import Choice, Reason
from hookline_cluster.balancing.prefix_view import PrefixView
from hookline_server.turns import Turns

LEEWAY = 16
"""Load above the least at which an engine with the whole prompt cached still gets it:
four requests that wait, by their weight."""
RELATIVE_LEEWAY = 0.5
"""The same as a part of the least load, if that is more."""

MOST_TOKENS = 16_384
"""Tokens at the start of a prompt by which engines differ, so that hashing a long
prompt takes the event loop a few milliseconds at most."""


class PrefixBalancer:
    """Follows cached prefixes as far as the engines' loads allow.

    An engine's load may exceed the least one by a leeway in proportion to the part of
    the prompt that it has cached. Of those within their leeway the one with most cached
    is chosen; equals by their load, then in turns.
    """

    def __init__(self, engines: Mapping[int, EngineFacts]) -> None:
        """Begins with nothing cached on engines that share a model."""
        facts = next(iter(engines.values()))
        self._hasher = BlockHasher(
            facts.block_size, HashAlgorithm(facts.cache.hash_algorithm)
        )
        self._most = MOST_TOKENS // facts.block_size * facts.block_size
        self._view = PrefixView(
            {index: each.model.num_kv_blocks for index, each in engines.items()}
        )
        self._turns: Turns[int] = Turns()

    def choose(
        self, candidates: Sequence[Candidate], request: GenerateRequest
    ) -> Choice:
        hashes = self._hashes(request)
        loads = {each.index: each.load for each in candidates}
        cached = self._view.num_cached(hashes)
        least, most = min(loads.values()), max(cached[index] for index in loads)
        leeway = max(LEEWAY, least * RELATIVE_LEEWAY) / max(1, len(hashes))
        able = [
            index for index in loads if loads[index] <= least + leeway * cached[index]
        ]
        index = self._turns.least(able, lambda each: (-cached[each], loads[each]))
        self._view.add(index, hashes)
        if cached[index] == most:
            return Choice(index, Reason.PREFIX if most else Reason.LOAD)
        return Choice(index, Reason.SPILL)

    def sent(self, engine_index: int, request: GenerateRequest) -> None:
        self._view.add(engine_index, self._hashes(request))

    def cache_changed(self, engine_index: int, changes: CacheChanges) -> None:
        self._view.change(engine_index, changes)

    def cache_lost(self, engine_index: int) -> None:
        self._view.clear(engine_index)

    def joined(self, engine_index: int, facts: EngineFacts) -> None:
        self._view.join(engine_index, facts.model.num_kv_blocks)

    def left(self, engine_index: int) -> None:
        self._view.leave(engine_index)

    def _hashes(self, request: GenerateRequest) -> list[bytes]:
        hashes: list[bytes] = []
        self._hasher.extend(
            hashes,
            request.prompt_token_ids[: self._most],
            adapter=request.adapter,
            cache_salt=request.cache_salt,
        )
        return hashes
