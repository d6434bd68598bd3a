"""Plans which drafts a step verifies."""

from hookline.kv_cache import KVCacheManager
from hookline.scheduler.plan_builder import PlanBuilder


def plan_drafts(
    drafts: dict[int, list[int]],
    builder: PlanBuilder,
    cache: KVCacheManager,
    max_model_len: int,
) -> None:
    """Gives drafts what the step has left of tokens and free blocks.

    Args:
        drafts: Draft tokens by request id; those of the plan's requests are taken out.
        builder: The plan.
        cache: Allocates their blocks.
        max_model_len: Maximum number of tokens per request.
    """
    for entry in builder.entries:
        request = entry.request
        if (given := drafts.pop(request.request_id, None)) is None:
            continue
        room = min(
            builder.budget,
            max_model_len - request.num_tokens,
            cache.room_for(request) - 1,
        )
        if (count := min(len(given), room)) > 0:
            blocks = cache.allocate_more(request, 1 + count)
            assert blocks is not None
            builder.add_drafts(entry, given[:count], blocks)
