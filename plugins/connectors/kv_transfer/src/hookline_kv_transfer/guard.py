"""Calls a connector's scheduler side and isolates requests from its failures.

A request whose connector fails is computed without it. Failures are counted by stage
and logged at intervals; after several in a row, loads are paused for a while.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from hookline.clock import NANOSECONDS
from hookline.request import Request
from hookline_kv_transfer.answers import Answers, Ending, Lookup, Refusal
from hookline_kv_transfer.connector import (
    SchedulerConnector,
    has_tiers,
    receives_payloads,
    resets_cache,
    tells_tier_events,
)
from hookline_kv_transfer.messages import (
    ConnectorMetadata,
    ConnectorRequest,
    Load,
    PlannedStep,
)
from hookline_kv_transfer.orders import Failures, by_stage
from hookline_kv_transfer.transfer_state import TransferState
from hookline_metrics.connector_events import (
    MOST_EVENTS,
    ConnectorEvent,
    ConnectorLookup,
    TierEvent,
)
from hookline_metrics.transfer_calls import TierReset
from hookline_metrics.transfer_failures import MOST_LETTERS, Reason, Stage
from hookline_metrics.transfer_stats import MOST_TIERS, TierStats
from hookline_registry import Failure, PluginGuard, isolate

T = TypeVar("T")

BREAKER_FAILURES = 5
BREAKER_SECONDS = 30.0


class ConnectorGuard:
    """Calls a connector; for the core's thread only.

    Attributes:
        answers: Where its answers are kept; None if they need not be.
    """

    def __init__(
        self,
        connector: SchedulerConnector,
        name: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connector, self._name = connector, name
        self._resettable = connector if resets_cache(connector) else None
        self._guard = PluginGuard(
            f"KV connector {name}",
            failures=BREAKER_FAILURES,
            cool_down_seconds=BREAKER_SECONDS,
            clock=clock,
        )
        self._receiver = connector if receives_payloads(connector) else None
        self._tiered = connector if has_tiers(connector) else None
        self._teller = connector if tells_tier_events(connector) else None
        self._clock = clock
        self._lookups: list[ConnectorLookup] = []
        self.answers: Answers | None = None

    @property
    def hit_source(self) -> str:
        """Where the connector's tokens come from; empty if it does not say."""
        return str(self._connector.capabilities.hit_source)[:MOST_LETTERS]

    @property
    def breaker_open(self) -> bool:
        """Whether loads are paused, except for a trial."""
        return self._guard.breaker.state != "closed"

    def matched_tokens(
        self, request: ConnectorRequest, num_computed_tokens: int
    ) -> tuple[int, bool]:
        """Returns the connector's offer; (0, False) if it fails or is paused."""
        found = self._matched_tokens(request, num_computed_tokens)
        if self.answers is not None:
            self.answers.add(Lookup(request.request_id, *found))
        return found

    def _matched_tokens(
        self, request: ConnectorRequest, num_computed_tokens: int
    ) -> tuple[int, bool]:
        if not self._guard.breaker.allows():
            return 0, False
        call = self._connector.get_num_new_matched_tokens
        started_at = self._clock()
        answer = self._call(Stage.LOOKUP, call, request, num_computed_tokens)
        if isinstance(answer, Failure):
            return 0, False
        if len(self._lookups) < MOST_EVENTS:
            took = round((self._clock() - started_at) * NANOSECONDS)
            self._lookups.append(ConnectorLookup(took))
        found = isolate(_offer, answer)
        if isinstance(found, Failure):
            self._malformed(Stage.LOOKUP, found)
            return 0, False
        return found

    def allocated(self, request: ConnectorRequest, load: Load) -> bool:
        """Reports allocated blocks; returns whether the connector took the report."""
        call = self._connector.update_state_after_alloc
        answer = self._call(Stage.ALLOCATE, call, request, load)
        if self.answers is not None and isinstance(answer, Failure):
            self.answers.add(Refusal(request.request_id))
        return not isinstance(answer, Failure)

    def metadata(self, step: PlannedStep) -> ConnectorMetadata | None:
        """Returns the orders for the worker's side; None without any or on failure."""
        answer = self._call(Stage.METADATA, self._connector.build_connector_meta, step)
        if isinstance(answer, Failure) or answer is None:
            return None
        if not isinstance(answer, ConnectorMetadata) or not isinstance(
            answer.payload, bytes
        ):
            self._malformed(Stage.METADATA, answer)
            return None
        return answer

    def finished(
        self, request: ConnectorRequest, block_ids: Sequence[int], transfer_id: int
    ) -> tuple[bool, dict[str, object] | None]:
        """Returns whether to keep the blocks, and `kv_transfer_params` as plain data.

        (False, None) if the connector fails.
        """
        keeps, params = self._finished(request, block_ids, transfer_id)
        if self.answers is not None:
            self.answers.add(Ending(request.request_id, keeps))
        return keeps, params

    def _finished(
        self, request: ConnectorRequest, block_ids: Sequence[int], transfer_id: int
    ) -> tuple[bool, dict[str, object] | None]:
        call = self._connector.request_finished
        answer = self._call(Stage.FINISH, call, request, block_ids, transfer_id)
        if isinstance(answer, Failure):
            return False, None
        found = isolate(_end, answer)
        if isinstance(found, Failure):
            self._malformed(Stage.FINISH, found)
            return False, None
        return found

    def receive(self, payload: bytes) -> None:
        """Passes on a payload of the worker's side."""
        if (receiver := self._receiver) is not None:
            self._call(Stage.POLL, receiver.update_connector_output, payload)

    def tier_stats(self) -> dict[str, TierStats]:
        """Returns the state of the tiers; not called again after a failure."""
        if (tiered := self._tiered) is None:
            return {}
        found = isolate(lambda: _tiers(tiered.tier_stats()))
        if isinstance(found, Failure):
            self._tiered = None
            self._note_malformed(found)
            return {}
        return found

    def reset_cache(self, external: bool | None) -> dict[str, TierReset]:
        """Has the connector drop what it keeps; returns what was done to each tier.

        The tiers of one that cannot, or fails, are still there.
        """
        kept = dict.fromkeys(self.tier_stats() or (self._name,), TierReset.KEPT)
        if (resettable := self._resettable) is None:
            return kept
        reset = partial(resettable.reset_cache, external=external)
        answer = self._call(Stage.RESET, reset)
        found = answer if isinstance(answer, Failure) else isolate(_resets, answer)
        if not isinstance(found, Failure):
            return found
        if found is not answer:
            self._malformed(Stage.RESET, found)
        return dict.fromkeys(kept, TierReset.FAILED)

    def take_events(self) -> list[ConnectorEvent]:
        """Returns look-ups and events of tiers since the last call.

        The connector is not asked for its events again after a failure.
        """
        events: list[ConnectorEvent] = [*self._lookups]
        self._lookups.clear()
        if (teller := self._teller) is not None:
            found = isolate(lambda: _events(teller.take_tier_events()))
            if isinstance(found, Failure):
                self._silence(found)
            else:
                events += found
        return events

    def is_moving(self) -> bool:
        """Returns whether the worker's side moves blocks; False after a failure."""
        if (teller := self._teller) is None:
            return False
        moving = isolate(teller.is_moving)
        if isinstance(moving, Failure):
            self._silence(moving)
        return moving is True

    def load_ended(self, *, is_good: bool) -> None:
        """Records a load's result with the circuit breaker."""
        self._guard.breaker.record([is_good])

    def note(self, stage: Stage, reason: Reason, detail: str) -> None:
        """Counts a failure outside of the connector's calls."""
        self._guard.failures.note((stage, reason), detail)

    def take_failures(self) -> Failures:
        """Returns the failures since the last call, by stage and reason."""
        return by_stage(self._guard.failures.drain())

    def close(self) -> None:
        isolate(self._connector.shutdown)

    def _call(
        self, stage: Stage, call: Callable[..., T], *arguments: object
    ) -> T | Failure:
        return self._guard.call((stage, Reason.RAISED), call, *arguments)

    def _silence(self, failure: Failure) -> None:
        self._teller = None
        self._note_malformed(failure)

    def _note_malformed(self, failure: Failure) -> None:
        kind = (Stage.POLL, Reason.MALFORMED)
        self._guard.failures.note(kind, failure.summary, error=failure.error)

    def _malformed(self, stage: Stage, answer: object) -> None:
        detail = (
            answer.summary if isinstance(answer, Failure) else type(answer).__name__
        )
        self._guard.fail((stage, Reason.MALFORMED), detail)


def _offer(answer: tuple[int, bool]) -> tuple[int, bool]:
    """Checks an offer; raises any error if it is malformed."""
    count, is_async = answer
    if type(count) is not int or type(is_async) is not bool or count < 0:
        raise ValueError(f"an offer is (tokens, bool), not {answer!r}")
    return count, is_async


def _end(
    answer: tuple[bool, Mapping[str, object] | None],
) -> tuple[bool, dict[str, object] | None]:
    """Checks an answer of `request_finished`; raises any error if it is malformed."""
    keeps, params = answer
    if type(keeps) is not bool:
        raise ValueError(f"an answer is (bool, params), not {answer!r}")
    if params is None:
        return keeps, None
    # Encoded here, so that it cannot fail on its way to the front end.
    packed = msgspec.msgpack.encode(params)
    return keeps, msgspec.msgpack.decode(packed, type=dict[str, object])


def _tiers(answer: Mapping[str, TierStats]) -> dict[str, TierStats]:
    """Checks tiers; raises any error if they are malformed."""
    tiers = {str(name)[:MOST_LETTERS]: stats for name, stats in answer.items()}
    if len(tiers) > MOST_TIERS:
        raise ValueError(f"{len(tiers)} tiers, {MOST_TIERS} at most")
    for stats in tiers.values():
        if not isinstance(stats, TierStats):
            raise TypeError(f"{stats!r} is not a TierStats")
    return tiers


def _resets(answer: Mapping[str, TierReset]) -> dict[str, TierReset]:
    """Checks the outcome of a reset; raises any error if it is malformed."""
    if len(answer) > MOST_TIERS:
        raise ValueError(f"{len(answer)} tiers, {MOST_TIERS} at most")
    return {str(name)[:MOST_LETTERS]: TierReset(each) for name, each in answer.items()}


def _events(answer: Sequence[TierEvent]) -> list[TierEvent]:
    """Checks events of tiers; raises any error if they are malformed."""
    if not answer:
        return []
    # Encoded here, so that they cannot fail on their way to the front end.
    packed = msgspec.msgpack.encode(list(answer)[:MOST_EVENTS])
    events = msgspec.msgpack.decode(packed, type=list[TierEvent])
    names = {each.tier: each.tier[:MOST_LETTERS] for each in events}
    if all(name == short for name, short in names.items()):
        return events
    return [msgspec.structs.replace(each, tier=names[each.tier]) for each in events]


def view_of(
    request: Request, state: TransferState, num_computed_tokens: int
) -> ConnectorRequest:
    """Returns a request as connectors see it.

    Tokens and hashes are copied when they have grown, not for each look at a request
    that waits.
    """
    if len(state.seen_token_ids) != len(request.token_ids):
        state.seen_token_ids = tuple(request.token_ids)
    if len(state.seen_block_hashes) != len(request.block_hashes):
        state.seen_block_hashes = tuple(request.block_hashes)
    return ConnectorRequest(
        request_id=request.request_id,
        token_ids=state.seen_token_ids,
        num_prompt_tokens=request.num_prompt_tokens,
        num_computed_tokens=num_computed_tokens,
        block_hashes=state.seen_block_hashes,
        facts=request.facts,
        kv_transfer_params=state.params,
    )
