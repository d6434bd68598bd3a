"""KV transfers again: the real scheduler's side, and the record as its connector."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

import msgspec

from hookline.clock import NANOSECONDS
from hookline.config.extensions import KV_TRANSFER
from hookline.engine.scheduler.extension import SchedulerSide
from hookline.step import ModelShape
from hookline_kv_transfer.answers import FAILED, Answer, Ending, Lookup, Refusal, Report
from hookline_kv_transfer.capabilities import SchedulerCapabilities
from hookline_kv_transfer.config import KVTransferConfig
from hookline_kv_transfer.layout import KV_LAYOUT, KVLayout
from hookline_kv_transfer.messages import (
    ConnectorMetadata,
    ConnectorRequest,
    Load,
    PlannedStep,
)
from hookline_kv_transfer.orders import EndedTransfer, TransferReport
from hookline_kv_transfer.transfers import Transfers
from hookline_metrics.connector_events import TierEvent
from hookline_recording.schema import Gated, Published
from hookline_replay.clock import RecordedClock
from hookline_replay.script import Script


class RefusedError(Exception):
    """The recorded connector raised an error here."""


class RecordedAnswers:
    """The answers of a connector, those of one output after another."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._place = -1
        self._lookups: dict[int, deque[Lookup]] = {}
        self._last: dict[int, Lookup] = {}
        self._refused: set[int] = set()
        self._endings: defaultdict[int, deque[bool]] = defaultdict(deque)
        self._reports: deque[Report] = deque()

    def lookup(self, request_id: int) -> tuple[int, bool]:
        """Returns the next offer for a request, or the last one again."""
        self._turn()
        if known := self._lookups.get(request_id):
            self._last[request_id] = known.popleft()
        found = self._last.get(request_id, Lookup(request_id))
        return found.num_tokens, found.is_async

    def is_refused(self, request_id: int) -> bool:
        """Returns whether the connector refused a request's blocks, once."""
        self._turn()
        if request_id in self._refused:
            self._refused.remove(request_id)
            return True
        return False

    def keeps(self, request_id: int) -> bool:
        """Returns whether it keeps the blocks of a request that ends."""
        self._turn()
        known = self._endings[request_id]
        return known.popleft() if known else False

    def report(self, *, is_poll: bool) -> TransferReport | None:
        """Returns the next report, if it is time for it.

        Args:
            is_poll: Whether nothing is computed: other polls may come first.
        """
        self._turn()
        script = self._script
        script.skip_closings()
        if not self._reports or (
            is_poll and not isinstance(script.next, Gated | Published)
        ):
            return None
        found = self._reports.popleft()
        return TransferReport(
            ended=[
                EndedTransfer(
                    transfer_id=number,
                    reason=FAILED if has_failed else "",
                    num_blocks=blocks,
                )
                for number, has_failed, blocks in found.ended
            ],
            closed=found.closed,
            read=found.read,
        )

    def _turn(self) -> None:
        """Takes the answers of the next output, once what led to it has begun."""
        place = self._script.output_place
        if place == self._place:
            return
        self._place = place
        self._lookups.clear()
        output = self._script.next_output
        told = (output.answers or {}).get(KV_TRANSFER, []) if output else []
        for answer in msgspec.convert(told, list[Answer]):
            match answer:
                case Lookup():
                    known = self._lookups.setdefault(answer.request_id, deque())
                    known.append(answer)
                case Refusal():
                    self._refused.add(answer.request_id)
                case Ending():
                    self._endings[answer.request_id].append(answer.keeps)
                case Report():
                    self._reports.append(answer)


class RecordedConnector:
    """Implements `TierEventConnector` with recorded answers."""

    capabilities = SchedulerCapabilities(tells_tier_events=True)

    def __init__(self, script: Script, answers: RecordedAnswers) -> None:
        self._script, self._answers = script, answers

    def register_kv_layout(self, layout: KVLayout) -> None:
        """Needs none."""

    def get_num_new_matched_tokens(
        self, request: ConnectorRequest, num_computed_tokens: int
    ) -> tuple[int, bool]:
        del num_computed_tokens
        return self._answers.lookup(request.request_id)

    def update_state_after_alloc(self, request: ConnectorRequest, load: Load) -> None:
        del load
        if self._answers.is_refused(request.request_id):
            raise RefusedError

    def build_connector_meta(self, step: PlannedStep) -> ConnectorMetadata | None:
        """Has no orders: there is no worker's side."""
        del step
        return None

    def request_finished(
        self, request: ConnectorRequest, block_ids: Sequence[int], transfer_id: int
    ) -> tuple[bool, Mapping[str, object] | None]:
        del block_ids, transfer_id
        return self._answers.keeps(request.request_id), None

    def take_tier_events(self) -> Sequence[TierEvent]:
        """Returns none."""
        return ()

    def is_moving(self) -> bool:
        """Returns whether the engine polled on until its next output."""
        output = self._script.next_output
        return output is not None and not output.wall

    def shutdown(self) -> None:
        """Has nothing to close."""


class RecordedTransfers:
    """Makes the scheduler's side, and gives it the worker's reports.

    Attributes:
        side: The side.
    """

    def __init__(self, script: Script, clock: RecordedClock) -> None:
        """Makes it with the recorded options.

        Raises:
            ConfigError: These are wrong.
        """
        self._answers = RecordedAnswers(script)
        options = script.scheduling.options.get(KV_TRANSFER, {})
        config = KVTransferConfig.from_mapping({**options, "kv_connector": "recorded"})
        connector = RecordedConnector(script, self._answers)
        self.side: SchedulerSide = Transfers(
            config, connector, clock=lambda: clock.at / NANOSECONDS
        )

    def section(self, *, is_poll: bool) -> TransferReport | None:
        """Returns the section of a step's result, or of a poll's."""
        return self._answers.report(is_poll=is_poll)


def layout_sections(shape: ModelShape, block_size: int) -> dict[str, object]:
    """Returns what a rank tells of its memory, which here has none."""
    layout = KVLayout(
        fingerprint="",
        num_blocks=shape.num_kv_blocks,
        block_size=block_size,
        dtype="",
        block_bytes=(0,),
    )
    return {KV_LAYOUT.name: layout}
