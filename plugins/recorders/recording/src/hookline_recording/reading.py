"""Reads recordings: rings of running, hung or dead engines, and saved files.

`read_recording` returns a `Recording`: requests, steps, events of requests, and states,
each with times of the engine's monotonic clock. Needs neither torch nor an engine.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from zlib import crc32

import msgspec

from hookline_recording import schema
from hookline_recording.schema import (
    FORMER_MAGIC,
    FRAME,
    HEADER_BYTES,
    MAGIC,
    MARK,
    MOST_RECORD_BYTES,
    OBSTACLES,
    PREFIX,
    STATE,
    STATE_AT,
    VERSION,
    Header,
    Record,
)

_MARK = MARK.to_bytes(2, "little")


class RecordingError(ValueError):
    """A file that is not a readable recording.

    Attributes:
        path: The file.
        reason: Description of the error.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"cannot read {path}: {reason}")
        self.path = path
        self.reason = reason


class NewerRecordingError(RecordingError):
    """A recording whose schema is newer than this reader.

    Attributes:
        found: Its version.
    """

    def __init__(self, path: str, found: int, hookline: str) -> None:
        super().__init__(
            path,
            f"it has version {found} of the schema{hookline}, and this reader knows "
            f"versions up to {VERSION}; install a newer hookline-recording",
        )
        self.found = found


@dataclass(frozen=True, slots=True)
class EngineState:
    """What an engine shows to a watch: of a running or hung one, this moment's.

    Attributes:
        at: When it last wrote a record, monotonic ns.
        busy_since: Begin of the oldest step in flight, or the end of the step before
            it, monotonic ns; 0 if there is none.
        open_requests: Requests that have not ended.
        steps: Steps begun.
    """

    at: int
    busy_since: int
    open_requests: int
    steps: int


@dataclass(slots=True)
class RecordedRequest:
    """What is known of a request; times in monotonic ns, None if not known.

    Attributes:
        facts: As it arrived; None if that was overwritten.
        queued_at: When it entered the waiting queue.
        scheduled: Its admissions, in order.
        preempted: Its preemptions, in order.
        finished: Its end; None if it has not ended.
        steps: Numbers of the steps that computed it.
    """

    facts: schema.Arrived | None = None
    queued_at: int | None = None
    scheduled: list[schema.Scheduled] = field(default_factory=list)
    preempted: list[schema.Preempted] = field(default_factory=list)
    finished: schema.Finished | None = None
    steps: list[int] = field(default_factory=list)


@dataclass(slots=True)
class RecordedStep:
    """A step: what was decided, computed and measured; parts may be overwritten.

    Attributes:
        number: Number of the step.
        planned: Its plan.
        computed: Its result; None if it has not ended, or that is not known.
        published: Its end, with the state after it; likewise.
        request_ids: Its requests; None if that is not known, because the plan that has
            them was overwritten.
        taken_blocks: (block, request that had it, request that has it now) of each KV
            block that a request's plan has got and another's had before.
    """

    number: int
    planned: schema.Planned | None = None
    computed: schema.Computed | None = None
    published: schema.Published | None = None
    request_ids: tuple[int, ...] | None = None
    taken_blocks: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def obstacle(self) -> str:
        """Why it admitted no more of the requests that waited; empty if none did."""
        if self.planned is None or self.planned.obstacle >= len(OBSTACLES):
            return ""
        return OBSTACLES[self.planned.obstacle]

    @property
    def request_tokens(self) -> dict[int, int]:
        """Tokens to compute by request id; empty if not known."""
        if self.request_ids is None or self.planned is None:
            return {}
        counts = self.planned.num_tokens or [1] * len(self.request_ids)
        return dict(zip(self.request_ids, counts, strict=True))

    @property
    def sampled(self) -> dict[int, int]:
        """Number of new tokens by request id; empty if not known."""
        if self.computed is None:
            return {}
        if self.computed.tokens is not None:
            return {each: len(new) for each, new in self.computed.tokens.items()}
        if self.computed.counts is not None:
            return self.computed.counts
        return dict.fromkeys(self.request_ids or (), 1)

    @property
    def schedule_ns(self) -> int | None:
        """Time of planning it."""
        if self.planned is None or self.published is None:
            return None
        return self.planned.at - self.published.started_at

    @property
    def execute_ns(self) -> int | None:
        """Time of computing it alone, without overlap with other steps."""
        if self.planned is None or self.computed is None or self.published is None:
            return None
        return self.computed.at - self.planned.at - self.published.waited_ns


@dataclass(frozen=True)
class Recording:
    """A recording that was read.

    Attributes:
        header: What it is of.
        state: What the engine showed last.
        records: All records in order.
        lost: Records that are damaged or missing between the oldest and the newest.
        overwritten: Records before the oldest one.
    """

    header: Header
    state: EngineState
    records: list[Record]
    lost: int = 0
    overwritten: int = 0

    @property
    def failure(self) -> str | None:
        """What the engine has failed of; None if it was killed, was closed or lives."""
        last = self.records[-1] if self.records else None
        return last.error or None if isinstance(last, schema.Ended) else None

    @cached_property
    def steps(self) -> list[RecordedStep]:
        """The steps in order; the last ones may be in flight."""
        return list(_steps(self.records))

    @cached_property
    def requests(self) -> dict[int, RecordedRequest]:
        """The requests by internal id."""
        return _requests(self.records, self.steps)

    @cached_property
    def states(self) -> list[schema.Published]:
        """Outputs in order: the state after each step, and between steps."""
        return [each for each in self.records if isinstance(each, schema.Published)]

    def find_request(self, client_id: str) -> list[int]:
        """Returns ids of requests by what a client calls them, oldest first."""
        return [
            request_id
            for request_id, request in self.requests.items()
            if request.facts is not None
            and client_id in (request.facts.client_id, request.facts.response_id)
        ]

    def wall_at(self, at: int) -> int:
        """Returns the wall clock of a moment of the monotonic clock, ns."""
        wall, monotonic = self.header.wall, self.header.monotonic
        for each in self.states:
            if each.wall and each.clock_at <= at:
                wall, monotonic = each.wall, each.clock_at
        return wall + at - monotonic


def read_header(path: Path) -> Header:
    """Reads what a recording is of.

    Raises:
        NewerRecordingError: Its schema is newer than this reader.
        RecordingError: It is no recording, or damaged.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return _header(path, file.read(HEADER_BYTES))


def read_state(path: Path) -> EngineState:
    """Reads what a ring's engine shows; cheap, and needs nothing of the engine.

    Raises:
        RecordingError: It is no recording.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        file.seek(STATE_AT)
        data = file.read(STATE.size)
    if len(data) < STATE.size:
        raise RecordingError(str(path), "not a recording of Hookline")
    return EngineState(*STATE.unpack(data))


def read_recording(path: Path) -> Recording:
    """Reads a ring or a saved recording.

    Damaged records are left out and counted.

    Raises:
        NewerRecordingError: Its schema is newer than this reader.
        RecordingError: It is no recording, or its header is damaged.
        OSError: It cannot be read.
    """
    data = path.read_bytes()
    header = _header(path, data[:HEADER_BYTES])
    found = dict(_frames(data))
    numbers = sorted(found)
    decode = msgspec.msgpack.Decoder(Record).decode
    records: list[Record] = []
    for number in numbers:
        try:
            records.append(decode(found[number]))
        except (ValueError, RecursionError):  # not of this version, or not ours
            continue
    span = numbers[-1] - numbers[0] + 1 if numbers else 0
    return Recording(
        header=header,
        state=EngineState(*STATE.unpack_from(data, STATE_AT)),
        records=records,
        lost=span - len(records),
        overwritten=numbers[0] - 1 if numbers else 0,
    )


def _header(path: Path, data: bytes) -> Header:
    if data.startswith(FORMER_MAGIC):
        raise RecordingError(
            str(path), "it is of Hookline 0.1 before recordings had a lasting schema"
        )
    if len(data) < HEADER_BYTES or not data.startswith(MAGIC):
        raise RecordingError(str(path), "not a recording of Hookline")
    _, version, length, checksum = PREFIX.unpack_from(data)
    body = data[PREFIX.size : PREFIX.size + length]
    if crc32(body) != checksum:
        raise RecordingError(str(path), "its header is damaged: wrong checksum")
    try:
        named: object = msgspec.msgpack.decode(body)
        header = None if version > VERSION else msgspec.convert(named, Header)
    except (ValueError, RecursionError) as error:
        raise RecordingError(str(path), f"its header is damaged: {error}") from error
    if header is None:
        by = named.get("hookline") if isinstance(named, dict) else None
        raise NewerRecordingError(
            str(path), version, f", of Hookline {by}" if by else ""
        )
    return header


def _frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields numbers and bodies of the frames that are whole, wherever they are."""
    position, size = HEADER_BYTES, FRAME.size
    while 0 <= position <= len(data) - size:
        mark, length, number, checksum = FRAME.unpack_from(data, position)
        end = position + size + length
        if mark == MARK and length <= MOST_RECORD_BYTES and end <= len(data):
            body = data[position + size : end]
            if crc32(body, number & 0xFFFFFFFF) == checksum:
                yield number, body
                position = end
                continue
        position = data.find(_MARK, position + 1)


def _steps(records: list[Record]) -> Iterator[RecordedStep]:
    """Yields steps in the order of their plans, with what came of each."""
    steps: dict[int, RecordedStep] = {}
    ids: tuple[int, ...] | None = None
    owners: dict[int, int] = {}

    def of(number: int) -> RecordedStep:
        return steps.setdefault(number, RecordedStep(number))

    last = 0
    for each in records:
        if isinstance(each, schema.Planned):
            if each.request_ids is not None:
                ids = tuple(each.request_ids)
            elif last and each.step != last + 1:
                ids = None  # the plan that has them may be missing
            last = each.step
            step = of(each.step)
            step.planned, step.request_ids = each, ids
            _own(owners, each.new_blocks or {}, step)
        elif isinstance(each, schema.Computed):
            of(each.step).computed = each
        elif isinstance(each, schema.Published) and each.step is not None:
            step = of(each.step)
            step.published, step.computed = each, each.computed
    yield from steps.values()


def _own(
    owners: dict[int, int], blocks: Mapping[int, list[int]], step: RecordedStep
) -> None:
    """Notes whose a step's blocks are now, and whose they were."""
    for request_id, block_ids in blocks.items():
        for block_id in block_ids:
            before = owners.get(block_id)
            if before is not None and before != request_id:
                step.taken_blocks.append((block_id, before, request_id))
            owners[block_id] = request_id


def _requests(
    records: list[Record], steps: list[RecordedStep]
) -> dict[int, RecordedRequest]:
    found: defaultdict[int, RecordedRequest] = defaultdict(RecordedRequest)
    for each in records:
        if isinstance(each, schema.Arrived):
            request = found[each.request_id]
            if request.facts is None or not each.is_repeated:
                request.facts = each
        elif isinstance(each, schema.Published) and each.events is not None:
            _take(each.events, found)
    for step in steps:
        for request_id in step.request_ids or ():
            found[request_id].steps.append(step.number)
    return dict(found)


def _take(events: schema.Events, found: defaultdict[int, RecordedRequest]) -> None:
    """Adds what happened to requests to what is known of them."""
    for queued in events.queued:
        found[queued.request_id].queued_at = queued.at
    for scheduled in events.scheduled:
        found[scheduled.request_id].scheduled.append(scheduled)
    for preempted in events.preempted:
        found[preempted.request_id].preempted.append(preempted)
    for finished in events.finished:
        found[finished.request_id].finished = finished
