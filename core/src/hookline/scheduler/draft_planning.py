"""Plans which drafts a step verifies."""

from hookline.kv_cache import KVCacheManager
from hookline.request import Request
from hookline.scheduler.plan_builder import PlanBuilder
from hookline.spec_decode.tree import DraftTree


class DraftPlanning:
    """Gives drafts what the step has left of tokens and free blocks."""

    def __init__(
        self, cache: KVCacheManager, *, max_model_len: int, tree: DraftTree | None
    ) -> None:
        self._cache = cache
        self._max_model_len = max_model_len
        self._tree = tree

    def add_drafts(self, builder: PlanBuilder) -> None:
        """Adds as many drafts to the plan as fit."""
        for entry in builder.entries:
            request = entry.request
            if not request.draft_token_ids:
                continue
            drafts, request.draft_token_ids = request.draft_token_ids, []
            room = min(
                builder.budget,
                self._most_useful(request),
                self._cache.room_for(request) - 1,
            )
            if (count := min(len(drafts), room)) > 0:
                blocks = self._cache.allocate_more(request, 1 + count)
                assert blocks is not None
                builder.add_drafts(entry, drafts[:count], blocks)

    def _most_useful(self, request: Request) -> int:
        """Returns how many drafts can be of use; a step adds one token to them."""
        left = request.max_tokens - request.num_output_tokens - 1
        if self._tree is None:
            return left
        places = self._max_model_len - request.num_tokens
        return min(self._tree.num_within(left), places)
