"""What a plan changes in its requests, before it is executed."""

from hookline.scheduler.ledger import Ledger
from hookline.scheduler.plan_builder import Entry


def count_planned(entry: Entry, ledger: Ledger, step: int) -> None:
    """Counts a plan's tokens as computed; drafts only once they are accepted."""
    request = entry.request
    request.num_drafts = len(entry.drafts)
    request.last_step = step
    request.num_planned_tokens = request.num_tokens
    before = request.num_computed_tokens
    after = before + entry.num_tokens - request.num_drafts
    again = min(after, request.max_computed_tokens) - before
    ledger.computed_tokens += entry.num_tokens
    ledger.recomputed_tokens += max(0, again)
    request.num_computed_tokens = after
    request.max_computed_tokens = max(after, request.max_computed_tokens)
    if not request.num_missing_tokens:
        request.num_pending_tokens += 1  # the step samples the one that follows
