"""Runs the scheduler again from a recording."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from hookline.config.extensions import (
    DRAFTING,
    GRAMMARS,
    KV_TRANSFER,
    KV_TRANSFER_OPTION,
)
from hookline.engine.commands import SCHEMA_VERSION, Command
from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.scheduler.readiness import ReadinessGate
from hookline.events import StepOutput
from hookline.exceptions import ConfigError
from hookline.frozen import EMPTY
from hookline.pooling import POOLING
from hookline.request import Request
from hookline_recording.checkpoint_schema import Checkpoint
from hookline_recording.schema import Arrived, Ended, Record
from hookline_recording.schema import Command as CommandRecord
from hookline_replay.cache import RecordedCache
from hookline_replay.clock import RecordedClock
from hookline_replay.comparing import Comparison, Difference
from hookline_replay.engine import EngineOptions, build_core
from hookline_replay.executor import EndOfRecordingError, RecordedExecutor, Report
from hookline_replay.gates import BeginningGate, gates_of
from hookline_replay.replayed import Following, ReplayedCore, ReplayedLoop
from hookline_replay.requests import Commands
from hookline_replay.restoring import restore
from hookline_replay.script import Script
from hookline_replay.sides import DECIDING, make_sides
from hookline_replay.witness import Witness

_REPEATED = (*DECIDING, DRAFTING, GRAMMARS, KV_TRANSFER, POOLING)
_MOST_EMPTY_TURNS = 64
"""A loop that has no output after so many turns has another opinion than the record."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a replay.

    Attributes:
        steps: Steps that were repeated.
        decisions: Decisions that were equal.
        requests: Requests that arrived.
        difference: The first decision that was another one; None if all were equal.
        notes: What the replay could not repeat, or should be known of it.
    """

    steps: int = 0
    decisions: int = 0
    requests: int = 0
    difference: Difference | None = None
    notes: list[str] = field(default_factory=list)


class Replay:
    """An engine that does again what a recording says.

    Attributes:
        core: Its core.
        script: The recording.
    """

    def __init__(
        self,
        path: Path,
        *,
        changes: Mapping[str, object] = EMPTY,
        planning: Callable[[int], None] | None = None,
        from_checkpoint: bool = False,
    ) -> None:
        """Builds the engine.

        Args:
            path: The recording.
            changes: Options in place of the recorded ones, by their names.
            planning: Called with the number of each step before it is planned.
            from_checkpoint: Whether to begin at its first checkpoint.

        Raises:
            RecordingError: It cannot be read or repeated.
            ConfigError: The engine had an extension that is not installed here.
            OSError: The recording cannot be read.
        """
        script = self.script = Script(path, from_checkpoint=from_checkpoint)
        self._clock = RecordedClock(script.header.monotonic)
        self._held: dict[int, Request] = {}
        self._beginning = BeginningGate()
        self._gates: list[ReadinessGate] = []
        if script.checkpoint is not None:
            self._gates.append(self._beginning)
        self._gates += gates_of(script, self._clock, self._held)
        self.core = self._make_core(changes)
        self.core.following = Following(script, self._clock, planning)
        self._commands = Commands(script)
        self._comparison = Comparison()
        if script.checkpoint is not None:
            self._restore(script.checkpoint)
        self._first_step = self._comparison.step
        self._witness = Witness(script)
        self._loop = ReplayedLoop(self.core, 1.0, self._witness)
        if script.checkpoint is not None:
            self._loop.resume()

    def _make_core(self, changes: Mapping[str, object]) -> ReplayedCore:
        script = self.script
        options = EngineOptions.of(script.scheduling, changes)
        had = [name for name in DECIDING if name in script.scheduling.extensions]
        sides = make_sides(options.config, DECIDING if changes else had)
        report: Report | None = None
        if KV_TRANSFER in script.scheduling.extensions:
            options, report = self._with_transfers(options, sides)
        executor = RecordedExecutor(script, self._clock, options.shape, report)
        # Where all tokens are there, the real hashes of blocks are repeated, too.
        core = build_core(
            options,
            executor,
            self._clock,
            sides=sides,
            gates=self._gates,
            kind=ReplayedCore,
            cache=KVCacheManager if script.has_tokens else RecordedCache,
        )
        executor.listen(lambda: core.scheduler.has_news)
        if isinstance(core.scheduler.cache, RecordedCache):
            core.scheduler.cache.hashes = script.hashes
        self._executor = executor
        return core

    def _restore(self, begin: Checkpoint) -> None:
        """Begins at a checkpoint."""
        self._clock.at = begin.at
        restore(self.script, begin, self.core.scheduler, self._gates)
        self._beginning.is_closed = False
        live = self.core.scheduler.requests
        for each in begin.requests:
            if each.gate:
                self._held[each.request_id] = live[each.request_id]
        outputs = {each: request.num_output_tokens for each, request in live.items()}
        self._executor.resume(outputs)
        self.core.resume_steps(begin.in_flight)
        self._comparison.step = begin.step

    def _with_transfers(
        self, options: EngineOptions, sides: dict[str, SchedulerSide]
    ) -> tuple[EngineOptions, Report]:
        """Adds the side of KV transfers; returns the options, and its reports.

        Raises:
            ConfigError: It is not installed, or its options are wrong.
        """
        try:
            from hookline_replay.transfers import (  # noqa: PLC0415 - optional
                RecordedTransfers,
                layout_sections,
            )
        except ImportError as error:
            raise ConfigError(
                KV_TRANSFER_OPTION,
                "the engine moved KV, which needs hookline-kv-transfer: "
                "pip install hookline-replay[transfer]",
            ) from error
        transfers = RecordedTransfers(self.script, self._clock)
        sides[KV_TRANSFER] = transfers.side
        size = options.config.cache.block_size
        told = layout_sections(options.shape, size)
        shape = replace(options.shape, rank_sections=(told,))
        return replace(options, shape=shape), transfers.section

    @property
    def step(self) -> int:
        """Number of the last step that was repeated."""
        return self._comparison.step

    def run(self, until: int | None = None) -> Outcome:
        """Repeats the recording up to a difference, a step, or its end.

        Args:
            until: Number of the last step; None for all.
        """
        difference: Difference | None = None
        while self.script.next_output is not None and difference is None:
            if until is not None and self._comparison.step >= until:
                break
            difference = self._turn()
        else:
            if difference is None:
                self._last_turn()
        return Outcome(
            steps=self._comparison.step - self._first_step,
            decisions=self._comparison.decisions,
            requests=len(self.script.arrived),
            difference=difference,
            notes=[*_notes(self.script), *self._notes_of_run()],
        )

    def _turn(self) -> Difference | None:
        """Repeats what led to the next output, and compares it."""
        script, witness = self.script, self._witness
        begin, end = script.place, script.output_place
        witness.records = []
        if begin in script.checkpoints:
            witness.forget_obstacle()
        for turn in range(_MOST_EMPTY_TURNS):
            self.core.following.has_waited = turn > 0
            self._executor.has_waited = turn > 0
            messages = self._loop.run_once(self._receive, 0.0)
            if messages and isinstance(messages[0], StepOutput):
                break
        recorded = [
            each for each in script.records[begin : end + 1] if _is_decision(each)
        ]
        script.place = end + 1
        return self._comparison.turn(recorded, witness.records)

    def _last_turn(self) -> None:
        """Repeats what led to a step that has not ended."""
        if self.script.next is not None:
            try:
                self._loop.run_once(self._receive, 0.0)
            except EndOfRecordingError:
                return
        self._loop.close()

    def _receive(self, timeout_seconds: float) -> Command | None:
        del timeout_seconds  # nothing is waited for
        if (found := self._commands.next()) is None:
            return None
        self._clock.at, command = found
        return command

    def _notes_of_run(self) -> Iterator[str]:
        if self._commands.unread:
            yield (
                f"{self._commands.unread} requests are of another version: their "
                "prompts are drawn from hashes"
            )
        last = self.script.last
        if isinstance(last, Ended) and last.error:
            yield f"the recorded engine failed: {last.error}"


def _is_decision(record: Record) -> bool:
    return not isinstance(record, Arrived | CommandRecord)


def _notes(script: Script) -> list[str]:
    """Tells what differences may come from."""
    header, here, notes = script.header, version("hookline-core"), []
    if header.hookline != here or header.wire_version != SCHEMA_VERSION:
        told = (
            f"it is of Hookline {header.hookline} (commands {header.wire_version}), "
            f"and this is {here} (commands {SCHEMA_VERSION}): differences may come "
            "from that"
        )
        notes.append(told)
    odd = (name for name in script.scheduling.extensions if name not in _REPEATED)
    notes += (f"what its extension {name} decided cannot be repeated" for name in odd)
    return notes
