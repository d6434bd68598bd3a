"""Who of the waiting requests joins the batch, and with what of its KV."""

from hookline.config import SchedulerConfig
from hookline.events import Scheduled
from hookline.kv_cache import KVCacheManager
from hookline.request import Request, RequestStatus
from hookline.scheduler.journal import Journal
from hookline.scheduler.ledger import Ledger
from hookline.scheduler.plan_builder import PlanBuilder
from hookline.scheduler.queue import WaitingQueue
from hookline.scheduler.transfers import Transfers


class Admission:
    """A part of the scheduler: it moves requests from its queue to its batch."""

    def __init__(  # noqa: PLR0917 - the scheduler's own parts
        self,
        config: SchedulerConfig,
        cache: KVCacheManager,
        waiting: WaitingQueue,
        running: list[Request],
        transfers: Transfers,
        ledger: Ledger,
    ) -> None:
        self._config = config
        self._cache = cache
        self._waiting = waiting
        self._running = running
        self._transfers = transfers
        self._ledger = ledger

    def admit(self, builder: PlanBuilder, journal: Journal, now: int) -> None:
        """Admits waiting requests, in their order, until one does not fit."""
        while (
            self._waiting
            and builder.budget > 0
            and len(self._running) < self._config.max_num_seqs
        ):
            request = self._waiting.peek()
            # Who is preempted is not admitted by the same plan, and before the next
            # one the step that was under way has brought its token.
            assert not request.num_pending_tokens
            prefix = self._cache.find_prefix(request)
            offer = self._transfers.offer(request, prefix)
            if offer.is_async:
                if not self._transfers.wait_for(request, prefix, offer, now):
                    return
                if request.status is RequestStatus.WAITING_FOR_REMOTE_KV:
                    self._waiting.pop()
                continue
            external = offer.num_tokens
            missing = request.num_tokens - len(prefix) * self._cache.block_size
            num_tokens = chunk(missing - external, builder.budget, self._config)
            if num_tokens == 0 or not self._cache.allocate(
                request, prefix, num_tokens, external
            ):
                return
            if external and not self._transfers.load_in_step(
                request, prefix, offer, now
            ):
                continue
            self._waiting.pop()
            self._record(request, journal, now)
            request.status = RequestStatus.RUNNING
            self._running.append(request)
            self._cache.cache_full_blocks(
                request, request.num_computed_tokens + num_tokens
            )
            builder.admit(request, num_tokens)

    def _record(self, request: Request, journal: Journal, now: int) -> None:
        """Counts cache hits once a request, at its first admission."""
        found = request.num_computed_tokens
        external = self._transfers.admitted(request)
        local = found - external
        is_resumed = request.status is RequestStatus.PREEMPTED
        if request.num_cached_tokens is None:
            request.num_cached_tokens = found
            if self._cache.uses_prefix_cache(request):
                self._ledger.count_lookup(request.num_prompt_tokens, local)
                self._transfers.count_lookup(request, local, external)
        journal.scheduled.append(
            Scheduled(
                request.request_id,
                now,
                local,
                external,
                max(0, request.max_computed_tokens - found),
                is_resumed,
                request.remote_kv,
            )
        )
        request.remote_kv = None


def chunk(missing: int, budget: int, config: SchedulerConfig) -> int:
    """How many of the missing tokens to compute now; 0 means wait."""
    if not config.enable_chunked_prefill:
        return missing if missing <= budget else 0
    if (threshold := config.long_prefill_token_threshold) is not None:
        missing = min(missing, threshold)
    return min(missing, budget)
