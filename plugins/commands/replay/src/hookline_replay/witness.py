"""A tap that keeps what an engine decides, in the form of a recording."""

from hookline.engine.commands import Command
from hookline.step import StepPlan
from hookline_recording.config import Content
from hookline_recording.hashing import PromptHasher
from hookline_recording.recorder import Recorder
from hookline_recording.schema import Blocked, Gated, Header, Planned, Record
from hookline_replay.script import Script


class Nowhere:
    """A `Store` that keeps nothing."""

    key_frame_bytes = 1 << 62
    written = 0

    def write(self, number: int, body: bytes) -> None:
        """Does nothing."""

    def show(self, at: int, busy_since: int, num_open: int, num_steps: int) -> None:
        """Does nothing."""

    def close(self, error: BaseException | None) -> None:
        """Has nothing to close."""


class Witness(Recorder):
    """Keeps records instead of writing them.

    Attributes:
        records: Those since they were last taken.
    """

    def __init__(self, script: Script) -> None:
        """Watches an engine that repeats a recording."""
        header = Header(block_size=script.header.block_size, salt=b"-")
        hasher = PromptHasher(header, "sha256")
        super().__init__(Nowhere(), Content.NONE, hasher)
        self._script = script
        self.records: list[Record] = []

    def command(self, at: int, command: Command) -> None:
        """Keeps no commands: they come from the recording."""

    def planned(self, at: int, plan: StepPlan) -> None:
        super().planned(at, plan)
        self._script.pass_decision(Planned)

    def forget_obstacle(self) -> None:
        """Tells an obstacle again, as a recorder does after a checkpoint."""
        self._blocked = ""

    def _write(self, record: Record) -> None:
        self.records.append(record)
        script = self._script
        if isinstance(record, Blocked):
            script.pass_decision(Blocked)
        elif isinstance(record, Gated) and not record.gate:
            script.skip_closings()
            upcoming = script.next  # not if a recorded gate has let the request go
            if isinstance(upcoming, Gated) and upcoming.request_id == record.request_id:
                script.place += 1
