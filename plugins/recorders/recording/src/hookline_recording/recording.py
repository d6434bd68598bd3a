"""A recording that was read: its requests, steps and states.

Times are those of the engine's monotonic clock, in ns. Needs neither torch nor an
engine.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from hookline_recording import schema
from hookline_recording.front_end_schema import Answered, Served
from hookline_recording.schema import OBSTACLES, Header, Record


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
class Gate:
    """A wait of a request at a gate.

    Attributes:
        name: Name of the gate, such as `grammar` or `remote_kv`.
        since: Its begin.
        until: Its end, or the request's; None while it lasts.
    """

    name: str
    since: int
    until: int | None = None


@dataclass(frozen=True, slots=True)
class FrontEndTimes:
    """What the front end did with a completion, on the engine's monotonic clock.

    Attributes:
        arrived: When the client's request arrived.
        prepared: When it was ready to be sent to the engine, tokenized.
        first_token: When its first token had come back.
        ended: When it ended for its client.
        head: When the head of the HTTP request was there; None if it came otherwise.
        first_byte: When the first byte of the response was sent.
        last_byte: When the last one was.
        unread_ns: How long the response waited for its client to read.
        status: Status of the response.
    """

    arrived: int
    prepared: int | None = None
    first_token: int | None = None
    ended: int = 0
    head: int | None = None
    first_byte: int | None = None
    last_byte: int | None = None
    unread_ns: int = 0
    status: int | None = None


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
        gates: Its waits at gates, in order.
        served: How the front end saw it; None if that is not known, or not yet.
    """

    facts: schema.Arrived | None = None
    queued_at: int | None = None
    scheduled: list[schema.Scheduled] = field(default_factory=list)
    preempted: list[schema.Preempted] = field(default_factory=list)
    finished: schema.Finished | None = None
    steps: list[int] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)
    served: Served | None = None


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
        return "" if self.planned is None else obstacle_name(self.planned.obstacle)

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
        front_end: Records of the front ends, in order.
        record_bytes: Size of the engine's records in the file.
    """

    header: Header
    state: EngineState
    records: list[Record]
    lost: int = 0
    overwritten: int = 0
    front_end: list[Served | Answered] = field(default_factory=list)
    record_bytes: int = 0

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
        found = dict[int, RecordedRequest]()
        take_requests(self.records, self.steps, found)
        for each in self.front_end:
            if isinstance(each, Served) and each.request_id in found:
                found[each.request_id].served = each
        return found

    @cached_property
    def states(self) -> list[schema.Published]:
        """Outputs in order: the state after each step, and between steps."""
        return [each for each in self.records if isinstance(each, schema.Published)]

    @cached_property
    def rejected(self) -> list[Served]:
        """Requests that the front end refused, so that no engine had them."""
        served = (each for each in self.front_end if isinstance(each, Served))
        return [each for each in served if not each.request_id]

    @cached_property
    def answered(self) -> dict[str, Answered]:
        """HTTP responses by the client's own ids; of equal ids, the last one."""
        found = (each for each in self.front_end if isinstance(each, Answered))
        return {each.client_id: each for each in found}

    @cached_property
    def blocked(self) -> list[tuple[int, int | None, str]]:
        """Times in which requests waited and no step could be planned: begin, end, why.

        The last one lasts if its end is None.
        """
        found: list[tuple[int, int | None, str]] = []
        for each in self.records:
            if isinstance(each, schema.Blocked | schema.Planned) and found:
                begin, end, why = found[-1]
                found[-1] = begin, each.at if end is None else end, why
            if isinstance(each, schema.Blocked):
                found.append((each.at, None, obstacle_name(each.obstacle)))
        return found

    def front_end_times(self, request_id: int) -> FrontEndTimes | None:
        """Returns what the front end did with a request; None if it is not known."""
        request = self.requests.get(request_id)
        if request is None or (served := request.served) is None or not served.arrived:
            return None
        # The front end knows when the engine queued it, which ties their clocks.
        if request.queued_at is not None and served.queued is not None:
            offset = served.queued - request.queued_at
        else:
            offset = self.header.wall - self.header.monotonic
        arrived = served.arrived - offset
        prepared = _after(arrived, served.prepared_ns)
        if prepared is not None and request.queued_at is not None:
            # It is read once it has been sent, and the engine may be faster.
            prepared = min(prepared, request.queued_at)
        times = FrontEndTimes(
            arrived=arrived,
            prepared=prepared,
            first_token=_after(arrived, served.first_token_ns),
            ended=arrived + served.ended_ns,
        )
        if not served.client_id or served.client_id not in self.answered:
            return times
        answered = self.answered[served.client_id]
        head = answered.begun - offset
        return replace(
            times,
            head=head,
            first_byte=_after(head, answered.first_byte_ns),
            last_byte=head + answered.last_byte_ns,
            unread_ns=answered.unread_ns,
            status=answered.status,
        )

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


def obstacle_name(index: int) -> str:
    """Returns an obstacle's name; empty if it is newer than this reader."""
    return OBSTACLES[index] if index < len(OBSTACLES) else ""


def _after(begin: int, duration: int | None) -> int | None:
    return None if duration is None else begin + duration


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


def take_requests(
    records: Iterable[Record],
    steps: Iterable[RecordedStep],
    known: dict[int, RecordedRequest],
) -> None:
    """Adds what records and steps tell of requests to what is known of them."""
    found = defaultdict[int, RecordedRequest](RecordedRequest, known)
    for each in records:
        if isinstance(each, schema.Arrived):
            request = found[each.request_id]
            if request.facts is None or not each.is_repeated:
                request.facts = each
        elif isinstance(each, schema.Gated):
            _take_gate(each, found[each.request_id].gates)
        elif isinstance(each, schema.Published) and each.events is not None:
            _take(each.events, found)
    for step in steps:
        for request_id in step.request_ids or ():
            found[request_id].steps.append(step.number)
    known.update(found)


def _take(events: schema.Events, found: defaultdict[int, RecordedRequest]) -> None:
    """Adds what happened to requests to what is known of them."""
    for queued in events.queued:
        found[queued.request_id].queued_at = queued.at
    for scheduled in events.scheduled:
        found[scheduled.request_id].scheduled.append(scheduled)
    for preempted in events.preempted:
        found[preempted.request_id].preempted.append(preempted)
    for finished in events.finished:
        request = found[finished.request_id]
        request.finished = finished
        if request.gates and request.gates[-1].until is None:
            request.gates[-1].until = finished.at


def _take_gate(told: schema.Gated, gates: list[Gate]) -> None:
    """Begins a wait at a gate, or ends it; key frames repeat those that last."""
    is_open = bool(gates) and gates[-1].until is None
    if not told.gate:
        if is_open:
            gates[-1].until = told.at
    elif not is_open:
        gates.append(Gate(told.gate, told.at))
