"""The books of KV transfers: what is loaded and saved, for whom, until when.

==============  =================================================================
blocks of       are held by
==============  =================================================================
a load, async   the load, until it ends: its request has none while it waits
a load, sync    the request, which is in the batch; not findable until it ended
a save          the save, beside whoever finds them
what is over    the transfer, until the worker confirms that it is closed
==============  =================================================================
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeVar

from hookline.clock import NANOSECONDS
from hookline.kv_cache import KVCacheManager, PoolChanges
from hookline.kv_transfer.config import KVTransferConfig, LoadFailurePolicy
from hookline.kv_transfer.connector import (
    BlockContent,
    ConnectorRequest,
    Load,
    PlannedStep,
)
from hookline.kv_transfer.failure_reason import Reason, Stage
from hookline.kv_transfer.guard import ConnectorGuard
from hookline.kv_transfer.orders import (
    EndedTransfer,
    Save,
    TransferOrders,
    TransferReport,
)
from hookline.request import Request, RequestStatus
from hookline.scheduler.transfer_ledger import TransferLedger
from hookline.stats import TransferStats

@dataclass(frozen=True, slots=True)
class Offer:
    """What a connector can bring behind a request's local prefix.

    Attributes:
        num_tokens: Of full blocks.
        is_async: Whether the request waits for them.
    """

    num_tokens: int = 0
    is_async: bool = False


NOTHING = Offer()
NO_TRANSFERS = TransferStats()


@dataclass(frozen=True, slots=True)
class LoadEnd:
    """What a load has come to, for its request.

    Attributes:
        request: It is alive.
        reason: Of a failure; empty if all was loaded.
        lost_tokens: That the load should have brought, and did not.
        spoilt_tokens: That were computed on what it should have brought.
    """

    request: Request
    reason: str = ""
    lost_tokens: int = 0
    spoilt_tokens: int = 0


@dataclass(slots=True)
class _OpenLoad:
    """A load under way.

    Attributes:
        load: As the connector knows it.
        request: For whom; of a synchronous one it may have ended.
        first_block: Its first block's index in the request.
        held: All blocks that it has a reference to.
        started_at: When, ns.
        is_first: Whether the request was never admitted before.
    """

    load: Load
    request: Request
    first_block: int
    held: Sequence[int]
    started_at: int
    is_first: bool


@dataclass(slots=True)
class _OpenSave:
    save: Save
    started_at: int


_Entry = TypeVar("_Entry", _OpenLoad, _OpenSave)


@dataclass(slots=True)
class _Orders:
    loads: list[Load] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)


class Transfers:
    """Of one scheduler; without a connector there never are any.

    Attributes:
        ledger: Totals.
        failure_ends: Whether a request ends when its KV cannot be loaded.
    """

    def __init__(
        self,
        cache: KVCacheManager,
        guard: ConnectorGuard | None = None,
        config: KVTransferConfig | None = None,
    ) -> None:
        self._cache = cache
        self._guard = guard
        self._loads: dict[int, _OpenLoad] = {}
        self._saves: dict[int, _OpenSave] = {}
        self._closing: dict[int, Sequence[int]] = {}
        self._next_id = 0
        self._orders = _Orders()
        self._changes = PoolChanges()
        self.ledger = TransferLedger()
        self._may_load = self._may_save = self.failure_ends = False
        self._load_ns = self._save_ns = 0
        if guard is not None and config is not None:
            cache.pool.changes = self._changes
            self._may_load, self._may_save = config.loads, config.saves
            policy = config.kv_load_failure_policy
            self.failure_ends = policy is LoadFailurePolicy.FAIL
            self._load_ns = round(config.kv_load_timeout_seconds * NANOSECONDS)
            self._save_ns = round(config.kv_save_timeout_seconds * NANOSECONDS)

    # -- loads -------------------------------------------------------------------

    def offer(self, request: Request, prefix: Sequence[int]) -> Offer:
        """What the connector has behind a waiting request's local prefix."""
        if self._guard is None or not self._may_load or not request.may_load:
            return NOTHING
        size = self._cache.block_size
        room = (request.num_tokens - 1) // size - len(prefix)
        if room < 1 or not self._cache.can_reuse(request):
            return NOTHING
        computed = len(prefix) * size
        found, is_async = self._guard.matched_tokens(
            _view(request, computed), computed
        )
        blocks = min(found // size, room)
        return Offer(blocks * size, is_async) if blocks else NOTHING

    def wait_for(
        self, request: Request, prefix: Sequence[int], offer: Offer, now: int
    ) -> bool:
        """Sets blocks aside for a waiting request, and has them loaded.

        The request waits for them from now on, unless the connector fails.

        Returns:
            False, and nothing is changed, if there is no room.
        """
        blocks = self._cache.set_aside(
            request, prefix, offer.num_tokens // self._cache.block_size
        )
        if blocks is None:
            return False
        held = [*prefix, *blocks]
        if self._begin(request, len(prefix), blocks, held, offer, now) is None:
            self._cache.pool.give_back(held)
        else:
            request.status = RequestStatus.WAITING_FOR_REMOTE_KV
        return True

    def load_in_step(
        self, request: Request, prefix: Sequence[int], offer: Offer, now: int
    ) -> bool:
        """Has an admitted request's external tokens loaded by the step being planned.

        False, and the request has lost its blocks again, if the connector fails.
        """
        first, count = len(prefix), offer.num_tokens // self._cache.block_size
        blocks = request.block_ids[first : first + count]
        load = self._begin(request, first, blocks, (), offer, now)
        if load is None:
            # Its blocks hold nothing yet.
            request.num_computed_tokens = first * self._cache.block_size
            self._cache.release(request)
            return False
        request.unproven = load.transfer_id
        request.external_tokens = self._range(first, count)
        return True

    def _begin(
        self,
        request: Request,
        first: int,
        blocks: Sequence[int],
        held: Sequence[int],
        offer: Offer,
        now: int,
    ) -> Load | None:
        assert self._guard is not None
        load = Load(
            transfer_id=self._new_id(),
            request_id=request.request_id,
            block_ids=tuple(blocks),
            block_hashes=tuple(request.block_hashes[first : first + len(blocks)]),
            is_async=offer.is_async,
        )
        computed = first * self._cache.block_size
        request.may_load = False  # again only after it ran and was preempted
        if not self._guard.allocated(_view(request, computed), load):
            return None
        is_first = request.num_cached_tokens is None
        self._loads[load.transfer_id] = _OpenLoad(
            load, request, first, held, now, is_first
        )
        self._orders.loads.append(load)
        return load

    def forget(self, request: Request) -> None:
        """A request that waits for a load has ended."""
        for transfer_id, entry in self._loads.items():
            if entry.request is request:
                self._fail_load(entry, Reason.ABORTED)
                self._give_up(transfer_id, entry.held)
                del self._loads[transfer_id]
                return

    def admitted(self, request: Request) -> int:
        """Of the tokens that a request is admitted with, those a connector brought."""
        brought = request.external_tokens
        found = max(0, min(request.num_computed_tokens, brought.stop) - brought.start)
        if found and request.unproven is None:
            request.may_load = True  # should it be preempted
        return found

    def count_lookup(self, request: Request, num_local: int, num_external: int) -> None:
        """Counts what the connector was asked for, once a request."""
        if self._may_load:
            self.ledger.count_lookup(
                request.num_prompt_tokens - num_local,
                0 if request.unproven is not None else num_external,
            )

    # -- saves -------------------------------------------------------------------

    def finish(self, request: Request, now: int) -> dict[str, object] | None:
        """Tells that a request has ended, which still has its blocks.

        Returns:
            What the client is told.
        """
        if self._guard is None:
            return None
        transfer_id, blocks = self._new_id(), list[int]()
        if self._may_save and request.unproven is None:
            self._cache.enter_full_blocks(request, request.num_computed_tokens)
            computed = -(-request.num_computed_tokens // self._cache.block_size)
            blocks = request.block_ids[:computed]
        keeps, told = self._guard.finished(
            _view(request, request.num_computed_tokens), tuple(blocks), transfer_id
        )
        if keeps and blocks:
            self._cache.pool.share(blocks)
            save = Save(transfer_id, tuple(blocks))
            self._saves[transfer_id] = _OpenSave(save, now)
            self._orders.saves.append(save)
        return told

    # -- with each step ----------------------------------------------------------

    def orders(self) -> TransferOrders | None:
        """What the executor is told with the step that is being planned."""
        if self._guard is None:
            return None
        orders, self._orders = self._orders, _Orders()
        changes, find = self._changes, self._cache.pool.find
        step = PlannedStep(
            written=[
                BlockContent(*entry)
                for entry in changes.entered
                if self._may_save and find(entry[1]) == entry[0]
            ],
            evicted=[
                BlockContent(*entry) for entry in changes.evicted if self._may_save
            ],
            cancelled=orders.cancelled,
        )
        changes.entered, changes.evicted = [], []
        return TransferOrders(
            metadata=self._guard.metadata(step),
            loads=orders.loads,
            saves=orders.saves,
            cancelled=orders.cancelled,
        )

    def settle(self, report: TransferReport | None, now: int) -> list[LoadEnd]:
        """Takes in what the executor says; gives what it means for requests."""
        if report is None:
            return []
        self.ledger.take(report)
        ends = []
        for ended in report.ended:
            if (entry := self._loads.pop(ended.transfer_id, None)) is not None:
                end = self._settle_load(entry, ended)
                ends += [end] if end is not None else []
            elif (save := self._saves.pop(ended.transfer_id, None)) is not None:
                self._settle_save(save, ended, now)
            elif ended.transfer_id in self._closing:
                # It was reported on its way to be cancelled: closed all the same.
                self._give_back(ended.transfer_id)
                self.ledger.late_reports += 1
        for transfer_id in report.closed:
            self._give_back(transfer_id)
        return ends

    def _settle_load(self, entry: _OpenLoad, ended: EndedTransfer) -> LoadEnd | None:
        load, request = entry.load, entry.request
        self.ledger.count_load(ended.nanoseconds)
        loaded = min(ended.num_blocks, len(load.block_ids))
        assert ended.reason or loaded == len(load.block_ids)
        if ended.reason:
            self._fail_load(entry, ended.reason, logs=False)
        elif self._guard is not None:
            self._guard.load_ended(is_good=True)
        if load.is_async:
            for block_id, block_hash in zip(
                load.block_ids[:loaded], load.block_hashes[:loaded], strict=True
            ):
                self._cache.pool.enter(block_id, block_hash)
            self._cache.pool.give_back(entry.held)
        if request.status is RequestStatus.FINISHED:
            return None
        return self._end_for(entry, loaded, ended.reason)

    def _end_for(self, entry: _OpenLoad, loaded: int, reason: str = "") -> LoadEnd:
        size, request = self._cache.block_size, entry.request
        end = entry.first_block + len(entry.load.block_ids)
        has_it, spoilt = entry.load.is_async, 0
        if not entry.load.is_async:
            if has_it := request.status is RequestStatus.RUNNING:
                self._cache.prove(request, entry.first_block + loaded)
                spoilt = request.num_computed_tokens - end * size if reason else 0
            if entry.is_first:
                self.ledger.count_hits(loaded * size)
            if not reason:
                request.unproven, request.may_load = None, True
        request.external_tokens = self._range(entry.first_block, loaded * has_it)
        lost = (len(entry.load.block_ids) - loaded) * size
        return LoadEnd(request, reason, lost, spoilt)

    def _settle_save(self, entry: _OpenSave, ended: EndedTransfer, now: int) -> None:
        self._cache.pool.give_back(entry.save.block_ids)
        self.ledger.count_save(now - entry.started_at)
        if ended.reason:
            self.ledger.fail(Stage.SAVE, ended.reason)

    def expire(self, now: int) -> list[LoadEnd]:
        """Gives up whatever is past its deadline."""
        ends = []
        for entry in _older(self._loads.values(), now - self._load_ns):
            if not entry.load.is_async:
                continue  # a step is never given up: its end tells
            transfer_id = entry.load.transfer_id
            self._fail_load(entry, Reason.DEADLINE)
            self._give_up(transfer_id, entry.held)
            del self._loads[transfer_id]
            ends.append(self._end_for(entry, 0, Reason.DEADLINE))
        for save in _older(self._saves.values(), now - self._save_ns):
            self.ledger.fail(Stage.SAVE, Reason.DEADLINE)
            self.ledger.expired_blocks += len(save.save.block_ids)
            self._give_up(save.save.transfer_id, save.save.block_ids)
            del self._saves[save.save.transfer_id]
        return ends

    def _fail_load(
        self, entry: _OpenLoad, reason: str, *, logs: bool = True
    ) -> None:
        """Counts it; a failure that the worker found is in its log already."""
        assert self._guard is not None
        if reason == Reason.ABORTED:  # which tells nothing of the connector
            self.ledger.fail(Stage.LOAD, reason)
            return
        self._guard.load_ended(is_good=False)
        if logs:
            detail = f"load {entry.load.transfer_id} has not ended"
            self._guard.failures.note(Stage.LOAD, reason, detail)
        else:
            self.ledger.fail(Stage.LOAD, reason)

    def _give_up(self, transfer_id: int, held: Sequence[int]) -> None:
        """Its blocks stay until the worker says that nobody touches them any more."""
        self._orders.cancelled.append(transfer_id)
        self._closing[transfer_id] = held

    def _give_back(self, transfer_id: int) -> None:
        self._cache.pool.give_back(self._closing.pop(transfer_id, ()))

    # -- telling -----------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether the worker must be asked now and then, though nothing is computed."""
        return bool(self._loads or self._saves or self._closing)

    @property
    def waiting(self) -> list[Request]:
        """Requests that wait for KV."""
        return [
            entry.request
            for entry in self._loads.values()
            if entry.load.is_async
        ]

    def held(self) -> Iterator[Sequence[int]]:
        """The blocks of each transfer that holds some."""
        yield from (entry.held for entry in self._loads.values())
        yield from (entry.save.block_ids for entry in self._saves.values())
        yield from self._closing.values()

    def stats(self) -> TransferStats:
        if self._guard is None:
            return NO_TRANSFERS
        self.ledger.add_failures(self._guard.failures.take())
        loads = (entry.started_at for entry in self._loads.values())
        saves = (entry.started_at for entry in self._saves.values())
        return self.ledger.stats(
            loading=len(self._loads),
            saving=len(self._saves),
            closing=len(self._closing),
            held_blocks=sum(map(len, self.held())),
            oldest_load_at=next(loads, None),
            oldest_save_at=next(saves, None),
        )

    def close(self) -> None:
        if self._guard is not None:
            self._guard.close()

    def _range(self, first: int, num_blocks: int) -> range:
        size = self._cache.block_size
        return range(first * size, (first + num_blocks) * size)

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id


def _view(request: Request, num_computed_tokens: int) -> ConnectorRequest:
    return ConnectorRequest(
        request_id=request.request_id,
        token_ids=request.token_ids,
        num_prompt_tokens=request.num_prompt_tokens,
        num_computed_tokens=num_computed_tokens,
        block_hashes=request.block_hashes,
        facts=request.facts,
        kv_transfer_params=request.inner.kv_transfer_params,
    )


def _older(entries: Iterable[_Entry], than: int) -> list[_Entry]:
    """Those that began so long ago; they stand in the order of their begin."""
    return list(takewhile(lambda entry: entry.started_at <= than, entries))
