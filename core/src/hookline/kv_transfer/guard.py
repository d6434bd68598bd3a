"""The only one that calls a connector's scheduler side: requests go on, come what may.

A request without a connector's help is computed as it would be anyway, so every failure
ends in that: it is counted by its stage, logged now and then, and after several in a
row the connector is not asked for anything for a while.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from hookline.kv_transfer.connector import (
    SchedulerConnector,
    has_tiers,
    receives_payloads,
)
from hookline.kv_transfer.failure_log import FailureLog
from hookline.kv_transfer.failure_reason import MOST_LETTERS, Reason, Stage
from hookline.kv_transfer.messages import (
    ConnectorMetadata,
    ConnectorRequest,
    Load,
    PlannedStep,
)
from hookline.request import Request
from hookline.stats import MOST_TIERS, TierStats
from hookline_registry import Breaker, Failure, isolate

T = TypeVar("T")

BREAKER_FAILURES = 5
BREAKER_SECONDS = 30.0


class ConnectorGuard:
    """Asks a connector; called by the core's thread only.

    Attributes:
        failures: Of its calls.
    """

    def __init__(
        self,
        connector: SchedulerConnector,
        name: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connector = connector
        self._breaker = Breaker(
            failures=BREAKER_FAILURES, cool_down_seconds=BREAKER_SECONDS, clock=clock
        )
        self.failures = FailureLog(name, clock)
        self._receiver = connector if receives_payloads(connector) else None
        self._tiered = connector if has_tiers(connector) else None

    @property
    def breaker_open(self) -> bool:
        """Whether no loads are asked for, or only one on trial."""
        return self._breaker.state != "closed"

    def matched_tokens(
        self, request: ConnectorRequest, num_computed_tokens: int
    ) -> tuple[int, bool]:
        """What it offers; (0, False) if it fails, or has failed too often of late."""
        if not self._breaker.allows():
            return 0, False
        call = self._connector.get_num_new_matched_tokens
        answer = self._call(Stage.LOOKUP, call, request, num_computed_tokens)
        if isinstance(answer, Failure):
            return 0, False
        found = isolate(_offer, answer)
        if isinstance(found, Failure):
            self._malformed(Stage.LOOKUP, found)
            return 0, False
        return found

    def allocated(self, request: ConnectorRequest, load: Load) -> bool:
        """Whether it knows now that blocks were set aside."""
        call = self._connector.update_state_after_alloc
        return not isinstance(self._call(Stage.ALLOCATE, call, request, load), Failure)

    def metadata(self, step: PlannedStep) -> ConnectorMetadata | None:
        """Its orders; None if it has none, or fails."""
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
        """Whether to keep the blocks, and what the client is told; nothing if it fails.

        What the client is told is plain data.
        """
        call = self._connector.request_finished
        answer = self._call(Stage.FINISH, call, request, block_ids, transfer_id)
        if isinstance(answer, Failure):
            return False, None
        found = isolate(_end, answer)
        if isinstance(found, Failure):
            self._malformed(Stage.FINISH, found)
            return False, None
        return found

    def hear(self, payload: bytes) -> None:
        """What the worker's side tells."""
        if (receiver := self._receiver) is not None:
            self._call(Stage.POLL, receiver.update_connector_output, payload)

    def tier_stats(self) -> dict[str, TierStats]:
        """Of its tiers; none if it has none. One that fails is not asked again."""
        if (tiered := self._tiered) is None:
            return {}
        found = isolate(lambda: _tiers(tiered.tier_stats()))
        if isinstance(found, Failure):
            self._tiered = None
            self.failures.note(
                Stage.POLL, Reason.MALFORMED, found.summary, error=found.error
            )
            return {}
        return found

    def load_ended(self, *, is_good: bool) -> None:
        """Loads that fail count as failures of the connector, too."""
        self._breaker.record([is_good])

    def close(self) -> None:
        isolate(self._connector.shutdown)

    def _call(
        self, stage: Stage, call: Callable[..., T], *arguments: object
    ) -> T | Failure:
        answer = isolate(call, *arguments)
        if isinstance(answer, Failure):
            self.failures.note(stage, Reason.RAISED, answer.summary, error=answer.error)
            self._breaker.record([False])
        return answer

    def _malformed(self, stage: Stage, answer: object) -> None:
        detail = (
            answer.summary if isinstance(answer, Failure) else type(answer).__name__
        )
        self.failures.note(stage, Reason.MALFORMED, detail)
        self._breaker.record([False])


def _offer(answer: tuple[int, bool]) -> tuple[int, bool]:
    """Raises whatever a value that is no offer raises."""
    count, is_async = answer
    if type(count) is not int or type(is_async) is not bool or count < 0:
        raise ValueError(f"an offer is (tokens, bool), not {answer!r}")
    return count, is_async


def _end(
    answer: tuple[bool, Mapping[str, object] | None],
) -> tuple[bool, dict[str, object] | None]:
    """Raises whatever a value that is no answer of `request_finished` raises."""
    keeps, told = answer
    if type(keeps) is not bool:
        raise ValueError(f"an answer is (bool, params), not {answer!r}")
    if told is None:
        return keeps, None
    # Through msgpack now: it goes to the front end, and must not fail on its way.
    packed = msgspec.msgpack.encode(told)
    return keeps, msgspec.msgpack.decode(packed, type=dict[str, object])


def _tiers(answer: Mapping[str, TierStats]) -> dict[str, TierStats]:
    """Raises whatever a value that tells no tiers raises."""
    tiers = {str(name)[:MOST_LETTERS]: stats for name, stats in answer.items()}
    if len(tiers) > MOST_TIERS:
        raise ValueError(f"{len(tiers)} tiers, {MOST_TIERS} at most")
    for stats in tiers.values():
        if not isinstance(stats, TierStats):
            raise TypeError(f"{stats!r} is no TierStats")
    return tiers


def view_of(request: Request, num_computed_tokens: int) -> ConnectorRequest:
    """What connectors see of a request; its lists are the request's own."""
    return ConnectorRequest(
        request_id=request.request_id,
        token_ids=request.token_ids,
        num_prompt_tokens=request.num_prompt_tokens,
        num_computed_tokens=num_computed_tokens,
        block_hashes=request.block_hashes,
        facts=request.facts,
        kv_transfer_params=request.inner.kv_transfer_params,
    )
