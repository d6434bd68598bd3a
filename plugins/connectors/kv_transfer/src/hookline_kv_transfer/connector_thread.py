"""The only one that calls a connector's worker side: around each step, and its layers.

Opens the blocks of transfers that begin and closes those of transfers that end, so that
whatever the connector does it touches no block at the wrong time. A connector whose
call hangs is left behind in its thread: all blocks are closed to it, which waits for a
running copy, so that they can be used again at once.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

from hookline_kv_transfer.blocks import KVBlocks
from hookline_kv_transfer.connector import WorkerConnector
from hookline_kv_transfer.messages import FailedTransfer, TransferResults
from hookline_kv_transfer.orders import (
    EndedTransfer,
    TransferOrders,
    TransferReport,
    by_stage,
)
from hookline_metrics.transfer_failures import MOST_LETTERS, Reason, Stage
from hookline_registry import Failure, FailureLog, isolate
from hookline_registry.plugin_thread import Answer, PluginThread

T = TypeVar("T")


class ConnectorThread:
    """Calls the worker's side of a connector in a thread; for the executor's thread.

    A step is `start_step`, two calls for each layer, `finish_step`. Between steps
    these two poll the connector.

    Attributes:
        layout: Layout of the blocks.
        is_abandoned: Whether a call hung, and the connector is never called again.
    """

    def __init__(
        self,
        connector: WorkerConnector,
        name: str,
        blocks: KVBlocks,
        *,
        timeout_seconds: float,
    ) -> None:
        """Takes a connector that has registered the blocks.

        Args:
            connector: The worker's side.
            name: Name of the connector.
            blocks: The blocks.
            timeout_seconds: Time after which a call has hung.
        """
        self._connector = connector
        self._timeout = timeout_seconds
        self._thread = PluginThread("connector")
        self.is_abandoned = False
        self._blocks = blocks
        self.layout = blocks.layout
        self._failures = FailureLog(f"KV connector {name}")
        self._began: dict[int, int] = {}
        self._ended: list[EndedTransfer] = []
        self._closed: list[int] = []
        self._late = 0
        self._payload = b""
        self._in_step: set[int] = set()
        self._held_up = 0
        self._saves = False

    def start_step(self, orders: TransferOrders | None) -> None:
        """Opens and closes transfers as ordered, and starts the step's loads."""
        if not self.is_abandoned:
            self._blocks.begin_step(self._thread.ident)
        self._in_step, self._held_up, self._saves = set(), 0, False
        if orders is None:
            return
        now = time.perf_counter_ns()
        for load in orders.loads:
            self._blocks.open_load(load)
            self._began[load.transfer_id] = now
            if not load.is_async:
                self._in_step.add(load.transfer_id)
        for save in orders.saves:
            self._blocks.open_save(save.transfer_id, save.block_ids)
            self._began[save.transfer_id] = now
        # Last: transfers of these orders may have been cancelled already.
        for transfer_id in orders.cancelled:
            self._close(transfer_id)
            self._closed.append(transfer_id)
        if self.is_abandoned:
            self._fail(list(self._began), Reason.HUNG)
            return
        if orders.metadata is None:
            self._fail([load.transfer_id for load in orders.loads], Reason.NO_METADATA)
            return
        self._saves = True
        if not self._timed(self._connector.start_load_kv, orders.metadata):
            self._fail([load.transfer_id for load in orders.loads], Reason.RAISED)

    def before_attention(self, layer: int) -> None:
        """Waits for the synchronous loads that the layer reads."""
        if self._in_step and not self._timed(
            self._connector.wait_for_layer_load, layer
        ):
            self._fail(list(self._in_step), Reason.RAISED)

    def after_attention(self, layer: int) -> None:
        """Saves what the layer has written."""
        if self._saves:
            outcome = self._call(Stage.SAVE, self._connector.save_kv_layer, layer)
            self._saves = not isinstance(outcome, Failure)

    def finish_step(self) -> TransferReport:
        """Closes ended transfers; afterwards the step's blocks may change."""
        if self._saves:
            self._call(Stage.SAVE, self._connector.wait_for_save)
        if not self.is_abandoned:
            self._poll()
        self._fail(list(self._in_step), Reason.UNREPORTED)
        self._blocks.end_step()
        return self._report()

    def close(self) -> None:
        """Closes all blocks and ends the connector."""
        for transfer_id in list(self._began):
            self._close(transfer_id)
        if not self.is_abandoned:
            self._thread.run(self._connector.shutdown, self._timeout)
        self._thread.close()

    def _poll(self) -> None:
        """Takes the transfers that have ended."""
        polled = self._call(Stage.POLL, self._finished)
        if isinstance(polled, Failure):
            return
        taken = polled.outcome
        if isinstance(taken, TransferResults):
            self._take(taken)
        elif isinstance(taken, Failure):
            self._failures.note((Stage.POLL, Reason.MALFORMED), taken.summary)

    def _finished(self) -> Answer:
        """Returns checked results; in its thread, because checks run its code."""
        return Answer(isolate(_checked, self._connector.get_finished()))

    def _take(self, results: TransferResults) -> None:
        for reason, count in results.incidents.items():
            detail = f"{count} times"
            self._failures.note((Stage.INCIDENT, reason), detail, count=count)
        self._payload = results.payload
        for transfer_id in results.loaded:
            self._end(transfer_id, is_load=True)
        for transfer_id in results.saved:
            self._end(transfer_id, is_load=False)
        for failed in results.failed:
            self._end(
                failed.transfer_id, reason=failed.reason, most=failed.num_loaded_blocks
            )

    def _end(
        self,
        transfer_id: int,
        *,
        is_load: bool | None = None,
        reason: str = "",
        most: int | None = None,
    ) -> None:
        """Ends a transfer; a load counts what was written, not what is reported."""
        gate = self._blocks.close(transfer_id)
        if gate is None:
            self._late += 1
            return
        count = gate.num_complete if gate.load is not None else 0
        if reason:
            count = min(count, most or 0)
        elif is_load is not (gate.load is not None):
            reason, count = Reason.MALFORMED, 0
        elif gate.load is not None and count < len(gate.load.block_ids):
            reason = Reason.INCOMPLETE
        if reason:
            stage = Stage.SAVE if gate.load is None else Stage.LOAD
            detail = f"transfer {transfer_id}: {count} valid blocks"
            self._failures.log((stage, reason), detail)
        self._note_end(transfer_id, reason, count)

    def _fail(self, transfer_ids: list[int], reason: Reason) -> None:
        """Ends loads as failed."""
        for transfer_id in transfer_ids:
            if self._blocks.close(transfer_id) is not None:
                self._failures.log((Stage.LOAD, reason), f"transfer {transfer_id}")
                self._note_end(transfer_id, reason, 0)

    def _note_end(self, transfer_id: int, reason: str, num_blocks: int) -> None:
        took = time.perf_counter_ns() - self._began.pop(transfer_id)
        if transfer_id in self._in_step:
            self._in_step.remove(transfer_id)
            took = self._held_up
        self._ended.append(
            EndedTransfer(
                transfer_id=transfer_id,
                reason=reason,
                num_blocks=num_blocks,
                nanoseconds=took,
            )
        )

    def _close(self, transfer_id: int) -> None:
        self._blocks.close(transfer_id)
        self._began.pop(transfer_id, None)

    def _report(self) -> TransferReport:
        loaded_bytes, saved_bytes = self._blocks.take_bytes()
        report = TransferReport(
            ended=self._ended,
            closed=self._closed,
            failures=by_stage(self._failures.drain()),
            late_reports=self._late,
            loaded_bytes=loaded_bytes,
            saved_bytes=saved_bytes,
            payload=self._payload,
            read=self._blocks.take_read(),
        )
        self._ended, self._closed, self._late, self._payload = [], [], 0, b""
        return report

    def _timed(self, call: Callable[..., object], *arguments: object) -> bool:
        """Makes a call that delays the step; returns whether it succeeded."""
        started = time.perf_counter_ns()
        outcome = self._call(Stage.LOAD, call, *arguments)
        self._held_up += time.perf_counter_ns() - started
        return not isinstance(outcome, Failure)

    def _call(
        self, stage: Stage, call: Callable[..., T], *arguments: object
    ) -> T | Failure:
        """Makes a call in the connector's thread."""
        answer = self._thread.run(partial(call, *arguments), self._timeout)
        if answer is None:
            return self._abandon(stage)
        outcome = answer.outcome
        if isinstance(outcome, Failure):
            kind = (stage, Reason.RAISED)
            self._failures.note(kind, outcome.summary, error=outcome.error)
            return outcome
        return cast("T", outcome)

    def _abandon(self, stage: Stage) -> Failure:
        """Leaves the connector behind: its transfers fail, and no block is open."""
        detail = f"a call has not returned within {self._timeout} s"
        self._failures.note(
            (stage, Reason.HUNG), f"{detail}; the connector is never called again"
        )
        self.is_abandoned, self._saves = True, False
        self._held_up += round(self._timeout * 1e9)
        self._blocks.end_step()
        self._fail(list(self._began), Reason.HUNG)
        return Failure(TimeoutError(detail))


def _checked(results: TransferResults) -> TransferResults:
    """Returns a checked copy; raises any error if the results are malformed."""
    failed = [
        FailedTransfer(
            _whole(each.transfer_id),
            str(each.reason)[:MOST_LETTERS] or Reason.MALFORMED,
            max(0, _whole(each.num_loaded_blocks)),
        )
        for each in results.failed
    ]
    incidents = {
        str(reason)[:MOST_LETTERS] or Reason.MALFORMED: max(0, _whole(count))
        for reason, count in results.incidents.items()
    }
    return TransferResults(
        loaded=[_whole(each) for each in results.loaded],
        saved=[_whole(each) for each in results.saved],
        failed=failed,
        incidents=incidents,
        payload=_octets(results.payload),
    )


def _octets(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r} is not bytes")
    return value


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value
