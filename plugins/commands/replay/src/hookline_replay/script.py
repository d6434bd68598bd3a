"""A recording as a replay reads it: records in order, and what will come of them."""

from collections import defaultdict, deque
from pathlib import Path

import msgspec

from hookline_recording import RecordingError, read_recording
from hookline_recording.checkpoint_schema import Checkpoint
from hookline_recording.config import Content
from hookline_recording.scheduling import Scheduling
from hookline_recording.schema import (
    Arrived,
    Blocked,
    Command,
    Computed,
    Ended,
    Finished,
    Gated,
    Header,
    KeyFrame,
    Planned,
    Published,
    Record,
)
from hookline_recording.streaming import parts_of
from hookline_replay.cache import BlockHashes

MOST_BLOCKS = 1 << 22
"""KV blocks of an engine that can be repeated, in memory of about 1 GiB."""
FAILING = ("Failed", "Rejected")
"""Kinds of ends of requests whose wait at a gate was in vain."""
END = -1
"""Takes the place of a stop token where a recording has no tokens."""


class Script:
    """The records of one engine, with a place that moves on as they are repeated.

    Attributes:
        path: The recording.
        header: What it is of.
        scheduling: What its scheduler was made from.
        records: Its records, but for those that only help readers.
        place: Index of the next of them.
        checkpoints: Indices of records that come after a checkpoint.
        last: Its last record.
        checkpoint: Where it begins if that is in mid-run; otherwise None.
        has_tokens: Whether it has the prompts and outputs of all requests.
        hashes: Hashes of the requests' blocks.
        computed: Results by the numbers of their steps.
        evicted: Blocks evicted to make room for steps, likewise.
        started_at: When planning began of steps that have ended, by number, ns.
        queued_at: When requests entered the queue, by id, ns.
        arrived: Requests by id.
        ended: Ends of requests by id.
        closings: Names of the gates that close before a request, with the places of
            their records, by its id.
        held: Ids of requests that ever wait at a gate.
    """

    checkpoint: Checkpoint | None = None

    def __init__(self, path: Path, *, from_checkpoint: bool = False) -> None:
        """Reads a recording, and the files that continue it.

        Args:
            path: The recording.
            from_checkpoint: Whether to begin at its first checkpoint even if it has the
                begin of the run.

        Raises:
            RecordingError: It is no recording, damaged, or lacks what a replay needs.
            OSError: It cannot be read.
        """
        self.path = path
        read = [read_recording(part) for part in parts_of(path)]
        self.header: Header = read[0].header
        self.scheduling = self._scheduling()
        if lost := sum(each.lost for each in read):
            raise RecordingError(
                str(path), f"{lost} of its records are damaged or missing"
            )
        if not any(each.records for each in read):
            raise RecordingError(str(path), "it has no records")
        all_records = [record for each in read for record in each.records]
        self.last: Record = all_records[-1]
        begin = 0
        if read[0].overwritten or from_checkpoint:
            begin = self._find_checkpoint(all_records)
        self.has_tokens = self.header.content == Content.TOKENS and not begin
        self.hashes = BlockHashes()
        self._begin()
        self._take_all(all_records, begin)
        self._next_output = self._find_output(0)

    def _begin(self) -> None:
        """Knows nothing yet, but for who waits at a checkpoint."""
        self.computed: dict[int, Computed] = {}
        self.evicted: dict[int, int] = {}
        self.started_at: dict[int, int] = {}
        self.queued_at: dict[int, int] = {}
        self.arrived: dict[int, Arrived] = {}
        self.ended: dict[int, Finished] = {}
        self.closings: defaultdict[int, deque[tuple[int, str]]] = defaultdict(deque)
        self.held: set[int] = set()
        if self.checkpoint is not None:
            live = self.checkpoint.requests
            self.held.update(each.request_id for each in live if each.gate)
        self._waiting = set(self.held)
        self.checkpoints: set[int] = set()
        self.records: list[Record] = []
        self.place = 0

    def _take_all(self, records: list[Record], begin: int) -> None:
        """Takes records from an index on, and what those before tell of requests."""
        for record in records[:begin]:
            if isinstance(record, Arrived):  # live ones are repeated before it
                self.arrived[record.request_id] = record
        for record in records[begin:]:
            self._take(record)
        self._take_hashes()

    def _scheduling(self) -> Scheduling:
        path, header = str(self.path), self.header
        if not header.scheduling:
            raise RecordingError(
                path,
                f"it is of Hookline {header.hookline}, whose recordings have no options"
                " of the scheduler: record again to replay",
            )
        try:
            found = msgspec.msgpack.decode(header.scheduling, type=Scheduling)
        except (ValueError, RecursionError) as error:
            raise RecordingError(path, f"its header is damaged: {error}") from error
        if not (
            0 < found.num_kv_blocks <= MOST_BLOCKS
            and found.max_model_len > 0
            and header.block_size > 0
        ):
            raise RecordingError(
                path,
                f"an engine with {found.num_kv_blocks} KV blocks of "
                f"{header.block_size} tokens cannot be repeated",
            )
        if header.content == Content.NONE:
            raise RecordingError(
                path,
                "it has no hashes of prompts, so that hits in the prefix cache cannot "
                "be repeated: record with --flight-recorder-content hashes",
            )
        return found

    def _take(self, record: Record) -> None:
        match record:
            case Arrived():
                if record.is_repeated:
                    return
                self.arrived[record.request_id] = record
            case Computed():
                self.computed[record.step] = record
                return
            case Checkpoint():
                self.checkpoints.add(len(self.records))
                return
            case KeyFrame() | Ended():
                return
            case Gated():
                if not self._take_gate(record):
                    return
            case Published():
                self._take_output(record)
            case _:
                pass
        self.records.append(record)

    def _take_gate(self, record: Gated) -> bool:
        """Takes a wait's begin or end; returns False if a key frame repeats it."""
        request_id = record.request_id
        if not record.gate:
            self._waiting.discard(request_id)
            return True
        if request_id in self._waiting:
            return False
        self._waiting.add(request_id)
        self.held.add(request_id)
        self.closings[request_id].append((len(self.records), record.gate))
        return True

    def _take_output(self, output: Published) -> None:
        if output.step is not None:
            self.started_at[output.step] = output.started_at
            self.evicted[output.step] = output.evicted_blocks
        if output.computed is not None:
            self.computed[output.computed.step] = output.computed
        if output.events is not None:
            for queued in output.events.queued:
                self.queued_at[queued.request_id] = queued.at
            for ended in output.events.finished:
                self.ended[ended.request_id] = ended
                self._waiting.discard(ended.request_id)

    def _find_checkpoint(self, records: list[Record]) -> int:
        known: set[int] = set()
        for at, record in enumerate(records):
            if isinstance(record, Arrived):
                known.add(record.request_id)
            # Of the oldest one, what comes before it may be overwritten in part.
            elif isinstance(record, Checkpoint) and known.issuperset(
                each.request_id for each in record.requests
            ):
                self.checkpoint = record
                return at + 1
        raise RecordingError(
            str(self.path),
            "it begins in mid-run and has no checkpoint: a ring has one after ten "
            "seconds, unless it is too small for the number of KV blocks",
        )

    def _take_hashes(self) -> None:
        """Notes what is known of requests' blocks."""
        hashes, size = self.hashes, self.header.block_size
        for each in self.arrived.values():
            hashes.take_arrived(each, size)
        live = self.checkpoint.requests if self.checkpoint else []
        outputs = {each.request_id: each.output_hashes for each in live}
        outputs |= {each: end.output_hashes for each, end in self.ended.items()}
        for request_id, output in outputs.items():
            arrived = self.arrived.get(request_id)
            known = None if arrived is None else arrived.prompt_tokens // size
            hashes.take_output(request_id, output, known)

    # -- the place ---------------------------------------------------------------

    @property
    def next(self) -> Record | None:
        """The next record; None at the end."""
        return self.records[self.place] if self.place < len(self.records) else None

    @property
    def next_output(self) -> Published | None:
        """The output that comes next; None if there is none."""
        if self._next_output < self.place:
            self._next_output = self._find_output(self.place)
        found = self._next_output
        record = self.records[found] if found < len(self.records) else None
        return record if isinstance(record, Published) else None

    @property
    def output_place(self) -> int:
        """Index of the record of the output that comes next, or the end's."""
        _ = self.next_output
        return self._next_output

    def _find_output(self, place: int) -> int:
        records = self.records
        while place < len(records) and not isinstance(records[place], Published):
            place += 1
        return place

    def skip_closings(self) -> None:
        """Passes what the engine tells by itself of gates that have closed."""
        while isinstance(record := self.next, Gated) and record.gate:
            self.place += 1

    def next_command(self) -> Arrived | Command | None:
        """Takes the next record if it is a command or a request."""
        self.skip_closings()
        record = self.next
        if isinstance(record, Arrived | Command):
            self.place += 1
            return record
        return None

    def pass_decision(self, kind: type[Planned] | type[Blocked]) -> None:
        """Passes the next decision if it is of this kind."""
        for place in range(self.place, self.output_place):
            record = self.records[place]
            if isinstance(record, kind):
                self.place = place + 1
                return
            if not isinstance(record, Gated):
                return

    def next_step(self) -> int | None:
        """Returns the number of the step whose plan is the next decision."""
        for place in range(self.place, self.output_place + 1):
            if place == len(self.records):
                break
            record = self.records[place]
            if isinstance(record, Planned):
                return record.step
            if not isinstance(record, Gated):
                break
        return None

    def decision_at(self) -> int | None:
        """Returns when the next decision was begun, ns; None if that is not known."""
        record = self.next
        if isinstance(record, Gated | Blocked):
            return record.at
        if isinstance(record, Planned):
            return self.started_at.get(record.step, record.at)
        if isinstance(record, Published) and record.events is not None:
            timed = (
                end.at
                for end in record.events.finished
                if end.kind == "TimedOut"
                or (end.kind in FAILING and end.request_id in self.held)
            )
            return min(timed, default=None)
        return None
