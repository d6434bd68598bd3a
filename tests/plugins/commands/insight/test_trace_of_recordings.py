"""Traces of staged engines, read back with the classes that Perfetto publishes."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from zlib import crc32

import msgspec
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    Trace,
    TracePacket,
    TrackEvent,
)

from hookline.config import SchedulerConfig
from hookline_insight import Explainer
from hookline_insight.activity import Activity
from hookline_insight.trace.chrome import ChromeCanvas
from hookline_insight.trace.drawing import draw
from hookline_insight.trace.excerpts import windows
from hookline_insight.trace.perfetto import PerfettoCanvas
from hookline_insight.trace_command import run
from hookline_insight.usage import Usage
from hookline_recording.frames import frames
from hookline_recording.schema import (
    FRAME,
    HEADER_BYTES,
    MAGIC,
    MARK,
    PREFIX,
    VERSION,
    Arrived,
    Computed,
    Events,
    Header,
    Planned,
    Published,
    Queued,
    Record,
    Scheduled,
)
from hookline_recording.streaming import RecordStream

from .staged_engine import Stage
from .test_staged_accounts import CASES, Case, gate, pipeline, sleep, without_cpu

ESSENTIAL = gate, pipeline, sleep, without_cpu
HOSTILE = '\x1b[2J</script><script>alert("x")</script>\u202e'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of rings of this test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@dataclass
class Slice:
    """A slice as it was read."""

    track: int
    name: str
    begin: int
    depth: int
    flows: list[int]
    end: int = 0
    notes: dict[str, object] = field(default_factory=dict)
    within: "Slice | None" = None


@dataclass
class Read:
    """A trace as it was read."""

    slices: list[Slice] = field(default_factory=list)
    counts: defaultdict[str, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    tracks: dict[int, str] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)

    def on(self, name: str) -> list[Slice]:
        """Returns the slices of tracks whose names begin so."""
        return [
            each for each in self.slices if self.tracks[each.track].startswith(name)
        ]

    def requests(self) -> dict[int, Slice]:
        """Returns the slices of requests by the engine's numbers."""
        return {
            int(str(each.notes["request_id"])): each
            for each in self.on("requests ")
            if each.depth == 0
        }


class Reader:
    """Reads packets; a begin without an end, or an end without a begin, fails."""

    def __init__(self) -> None:
        self.read = Read()
        self._names: dict[int, str] = {}
        self._note_names: dict[int, str] = {}
        self._open: defaultdict[int, list[Slice]] = defaultdict(list)
        self._last: defaultdict[int, int] = defaultdict(int)

    def take(self, data: bytes) -> Read:
        trace = Trace()
        trace.ParseFromString(data)
        first = trace.packet[0]
        assert first.sequence_flags == TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        for packet in trace.packet:
            for message in (packet, packet.track_event, packet.track_descriptor):
                assert not len(UnknownFieldSet(message))
            self._names |= {
                each.iid: each.name for each in packet.interned_data.event_names
            }
            self._note_names |= {
                each.iid: each.name
                for each in packet.interned_data.debug_annotation_names
            }
            if packet.HasField("track_descriptor"):
                descriptor = packet.track_descriptor
                name = descriptor.name or descriptor.process.process_name
                self.read.tracks[descriptor.uuid] = name
                self.read.parents[descriptor.uuid] = descriptor.parent_uuid
            elif packet.HasField("track_event"):
                self._event(packet.timestamp, packet.track_event)
        assert not any(self._open.values())
        return self.read

    def _event(self, at: int, event: TrackEvent) -> None:
        track = event.track_uuid
        assert at >= self._last[track], "a track goes back in time"
        self._last[track] = at
        notes = {
            self._note_names[each.name_iid]: getattr(each, each.WhichOneof("value"))
            for each in event.debug_annotations
        }
        if event.type == TrackEvent.TYPE_COUNTER:
            name = self.read.tracks[track]
            self.read.counts[name].append((at, event.counter_value))
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            name = event.name or self._names[event.name_iid]
            flows = [*event.flow_ids, *event.terminating_flow_ids]
            stack = self._open[track]
            made = Slice(track, name, at, len(stack), flows, notes=notes)
            made.within = stack[-1] if stack else None
            stack.append(made)
            self.read.slices.append(made)
        else:
            assert event.type == TrackEvent.TYPE_SLICE_END
            ended = self._open[track].pop()
            ended.end = at
            ended.notes |= notes


def busy(saved: Path, **given: object) -> Stage:
    """A queue, long prompts, preemptions, and hostile names."""
    options = SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=256)
    stage = Stage(options, blocks=48, saved=saved, **given)  # type: ignore[arg-type]
    for number in range(1, 13):
        stage.add(0.02 * number, number, 30 + 40 * (number % 4), 60 + 7 * number)
    return stage.add(0.3, 13, 16, 9, client_id=HOSTILE, tenant=HOSTILE)


def traced(saved: Path, steps_at_once: int = 150) -> Read:
    """Draws in many windows, and reads it."""
    file = BytesIO()
    assert draw([saved], file, PerfettoCanvas, steps_at_once=steps_at_once)
    return Reader().take(file.getvalue())


def causes(notes: dict[str, object]) -> dict[str, int]:
    return {
        name.removesuffix(" (ns)"): int(str(ns))
        for name, ns in notes.items()
        if name.endswith(" (ns)")
    }


def of_account(explainer: Explainer, request_id: int) -> dict[str, Counter[str]]:
    """Returns what `why` tells: ns by phase and cause."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for part in explainer.account(request_id).parts:
        phase = "not_recorded" if part.phase is None else part.phase.value
        name = f"{part.cause}: {part.detail}" if part.detail else str(part.cause)
        found[phase][name] += part.ns
    return dict(found)


def check_sums(read: Read, explainer: Explainer) -> None:
    """Compares the phases and causes of all requests with what `why` tells."""
    requests = read.requests()
    assert requests.keys() == explainer.recording.requests.keys()
    phases = defaultdict[int, defaultdict[str, Counter[str]]](
        lambda: defaultdict(Counter)
    )
    for each in read.on("requests "):
        if each.depth == 1 and each.within is not None:
            told = causes(each.notes)
            assert sum(told.values()) == each.end - each.begin
            number = int(str(each.within.notes["request_id"]))
            phases[number][each.name].update(told)
    for number, drawn in requests.items():
        account = explainer.account(number)
        assert drawn.end - drawn.begin == account.latency
        assert sum(causes(drawn.notes).values()) == account.latency
        assert dict(phases[number]) == of_account(explainer, number), number


@pytest.mark.parametrize("steps_at_once", [130, 2048])
def test_sums_of_requests_are_those_of_why(folder: Path, steps_at_once: int) -> None:
    """By phase and by cause, to the nanosecond, however few steps are held."""
    explainer = busy(folder / "a.rec").play(folder)

    check_sums(traced(folder / "a.rec", steps_at_once), explainer)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=() if case in ESSENTIAL else pytest.mark.exhaustive)
        for case in CASES
    ],
    ids=lambda case: case.__name__,
)
def test_staged_cases_are_drawn_as_told(case: Callable[[], Case], folder: Path) -> None:
    """Gates, sleep, transfers, stalls: nothing depends on where windows end."""
    stage = case()[0]
    stage.saved = folder / "a.rec"
    explainer = stage.play(folder)

    read = traced(folder / "a.rec", 70)

    check_sums(read, explainer)
    assert not list(overlaps(read.slices))


def test_steps_are_all_there_and_their_parts_add_up(folder: Path) -> None:
    """Slices of computing equal the spans of `why`, and the time that is eaten."""
    explainer = busy(folder / "a.rec").play(folder)

    read = traced(folder / "a.rec")

    steps = [each for each in read.on("steps") if each.name == "step"]
    spans = [
        (explainer.steps[each.step].number, each.end - each.begin)
        for each in explainer.activities
        if each.activity is Activity.EXECUTE and each.step is not None
    ]
    assert [(each.notes["step"], each.end - each.begin) for each in steps] == spans
    parts = sum(each.end - each.begin for each in read.on("costs of steps"))
    usage = Usage(explainer)
    eaten = sum(usage.of(each).compute_ns for each in explainer.recording.requests)
    assert parts == eaten == sum(length for _, length in spans)
    names = {each.name for each in read.on("costs of steps")}
    assert {"fixed_cost", "prompt_tokens", "decoding_requests"} <= names


def overlaps(slices: list[Slice]) -> Iterator[tuple[Slice, Slice]]:
    """Yields slices that cross others of their rows, or leave those around them."""
    ends: dict[tuple[int, int], Slice] = {}
    for each in sorted(slices, key=lambda one: (one.begin, one.depth)):
        before = ends.get((each.track, each.depth))
        if before is not None and before.end > each.begin:
            yield before, each
        around = each.within
        if around and not around.begin <= each.begin <= each.end <= around.end:
            yield around, each
        ends[each.track, each.depth] = each


def test_slices_of_a_row_never_cross(folder: Path) -> None:
    """Requests at once have rows of their own, and rows are used again."""
    busy(folder / "a.rec").play(folder)

    read = traced(folder / "a.rec")

    assert not list(overlaps(read.slices))
    rows = {each.track for each in read.on("requests ")}
    assert 4 < len(rows) < len(read.requests())
    assert any(each.name == "preempted" for each in read.slices)


def test_arrows_meet(folder: Path) -> None:
    """Each goes from a request to a step that computed it, and ends with its last."""
    explainer = busy(folder / "a.rec").play(folder)

    read = traced(folder / "a.rec")

    found: defaultdict[int, list[Slice]] = defaultdict(list)
    for each in read.slices:
        for flow in each.flows:
            found[flow].append(each)
    assert len(found) == len(read.requests())
    for slices in found.values():
        of_request = [each for each in slices if each.within is not None]
        steps = [each.notes["step"] for each in slices if each.name == "step"]
        (number,) = {
            int(str(each.within.notes["request_id"]))
            for each in of_request
            if each.within
        }
        computed = explainer.recording.requests[number].steps
        assert set(steps) <= set(computed)
        assert max(steps, key=lambda each: int(str(each))) == computed[-1]
        assert min(each.begin for each in of_request) <= min(
            each.begin for each in slices if each.name == "step"
        )


def test_counters_and_obstacles_are_the_recordings(folder: Path) -> None:
    """What runs, waits and is used, at each moment; and why none was admitted."""
    explainer = busy(folder / "a.rec").play(folder)

    read = traced(folder / "a.rec")

    states = explainer.recording.states
    for name, counter in (
        ("running", "running"),
        ("waiting", "waiting"),
        ("KV blocks in use", "kv_blocks_used"),
    ):
        values = [value for _, value in read.counts[name]]
        expected = [getattr(each, counter) for each in states]
        assert values == [
            value
            for at, value in enumerate(expected)
            if not at or expected[at - 1] != value
        ]
    tokens = [sum(each.request_tokens.values()) for each in explainer.steps]
    assert max(value for _, value in read.counts["tokens of a step"]) == max(tokens)
    assert {"batch_slots", "kv_blocks"} <= {
        each.name for each in read.on("why none is admitted")
    }


def test_hostile_names_are_text(folder: Path) -> None:
    """No control character of a client's gets into either format."""
    busy(folder / "a.rec").play(folder)

    named = traced(folder / "a.rec").requests()[13]
    written = BytesIO()
    draw([folder / "a.rec"], written, ChromeCanvas)

    for text in (named.name, str(named.notes["tenant"])):
        assert "alert" in text
        assert text.isprintable()
    events = json.loads(written.getvalue())
    names = {each["name"] for each in events if each["ph"] == "B"}
    assert named.name in names
    assert all(name.isprintable() for name in names)


def test_json_tells_the_same(folder: Path) -> None:
    """Begins, ends, notes and arrows of Chrome's format are those of Perfetto's."""
    busy(folder / "a.rec").play(folder)
    read = traced(folder / "a.rec")
    written = BytesIO()
    draw([folder / "a.rec"], written, ChromeCanvas, steps_at_once=150)

    events = json.loads(written.getvalue(), parse_float=lambda text: text)

    depth: Counter[int] = Counter()
    for each in events:
        depth[each.get("tid", 0)] += {"B": 1, "E": -1}.get(each["ph"], 0)
        assert min(depth.values()) >= 0
    assert not any(depth.values())
    begun = [each for each in events if each["ph"] == "B"]
    assert Counter(each["name"] for each in begun) == Counter(
        each.name for each in read.slices
    )
    arrows = Counter(each["ph"] for each in events if each["ph"] in "stf")
    assert arrows["s"] == arrows["f"] == len(read.requests())
    flows = sum(len(each.flows) for each in read.slices)
    assert sum(arrows.values()) == flows
    first = min(each.begin for each in read.slices)
    base = int(
        next(each for each in events if each["name"] == "process_labels")["args"][
            "labels"
        ].split()[2]
    )
    earliest = min(int(each["ts"].replace(".", "")) for each in begun)
    assert base + earliest == first


def test_of_a_long_recording_only_a_window_is_held(folder: Path) -> None:
    """Records and requests at hand do not grow with the recording."""
    options = SchedulerConfig(max_num_seqs=8)
    stage = Stage(options, saved=folder / "a.rec", ring_bytes=8 << 20)
    for number in range(1, 120):
        stage.add(0.2 * number, number, 20, 30)
    explainer = stage.play(folder)
    total = len(explainer.recording.records)

    held: list[tuple[int, int, int]] = []
    with RecordStream(folder / "a.rec") as stream:
        for window in windows(stream, explainer.costs, steps=200):
            past = window.past
            for number in list(past.requests):
                states = list(window.explainer.lives.states(number))
                if past.requests[number].finished and states[-1].end <= window.end:
                    past.forget(number)
            maps = past.first_tokens, past.told_at, past.began
            held.append(
                (
                    len(window.explainer.recording.records),
                    len(past.requests),
                    sum(map(len, maps)),
                )
            )

    assert len(held) > 8
    assert max(records for records, _, _ in held) < total / 3
    assert max(requests for _, requests, _ in held) < 40
    assert max(others for _, _, others in held) < 80


def test_files_that_continue_a_recording_are_drawn_with_it(folder: Path) -> None:
    """A recording that was cut in two gives the trace of the whole."""
    busy(folder / "a.rec").play(folder)
    whole = (folder / "a.rec").read_bytes()
    places = [position - FRAME.size for _, position, _ in frames(BytesIO(whole))]
    cut = places[len(places) // 2]
    header = whole[:HEADER_BYTES]
    (folder / "b.rec").write_bytes(whole[:cut])
    (folder / "b.rec.part2").write_bytes(header + whole[cut:])

    assert traced(folder / "b.rec") == traced(folder / "a.rec")


def test_the_command_writes_both_formats(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how much there is, and leaves nothing unfinished behind."""
    busy(folder / "a.rec").play(folder)

    assert run([str(folder / "a.rec"), "--perfetto", str(folder / "out")]) == 0
    assert run([str(folder / "a.rec"), "--json", str(folder / "out.json")]) == 0

    assert capsys.readouterr().out.count(" steps, ") == 2
    assert Reader().take((folder / "out").read_bytes()).requests()
    assert json.loads((folder / "out.json").read_text())
    assert not list(folder.glob("*unfinished*"))


def write_recording(path: Path, records: list[Record]) -> None:
    """Writes a recording of such records."""
    header = msgspec.msgpack.encode(Header(wall=1_000, monotonic=0))
    prefix = PREFIX.pack(MAGIC, VERSION, len(header), crc32(header))
    data = bytearray((prefix + header).ljust(HEADER_BYTES, b"\0"))
    for number, record in enumerate(records, 1):
        body = msgspec.msgpack.encode(record)
        data += FRAME.pack(MARK, len(body), number, crc32(body, number)) + body
    path.write_bytes(data)


def test_transfers_and_forward_passes_have_their_rows(folder: Path) -> None:
    """Two transfers at once have two rows; a pass longer than its step is cut."""
    events = Events(
        [Queued(1, 20), Queued(2, 21)],
        [Scheduled(1, 100, waited=(30, 90)), Scheduled(2, 100, waited=(40, 95))],
    )
    computed = Computed(300, 1, forward_ns=150, ranks=(7, 8, 9))
    later = Computed(410, 2, forward_ns=5000)
    records: list[Record] = [
        Arrived(10, 1, "a"),
        Arrived(12, 2, "b"),
        Planned(110, 1, [1, 2], [5, 6], admitted=[(1, 0), (2, 0)]),
        Published(310, "step", step=1, started_at=98, events=events, computed=computed),
        Planned(320, 2),
        Published(415, "step", step=2, started_at=315, computed=later),
    ]
    write_recording(folder / "a.rec", records)

    read = traced(folder / "a.rec")

    transfers = read.on("transfers ")
    assert [(each.name, each.begin, each.end) for each in transfers] == [
        ("a", 1030, 1090),
        ("b", 1040, 1095),
    ]
    assert len({each.track for each in transfers}) == 2
    passes = read.on("forward passes")
    assert [(each.begin, each.end) for each in passes] == [(1150, 1300), (1320, 1410)]
    assert passes[1].notes == {"measured (ns)": 5000}
    (first, _) = [each for each in read.on("steps") if each.name == "step"]
    assert causes(first.notes) == {
        "exchange": 7,
        "handover": 8,
        "wait for experts": 9,
    }


@pytest.mark.parametrize("read_bytes", [1, 19, 64, 1 << 20])
def test_frames_are_found_across_reads(
    folder: Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int
) -> None:
    """Whole ones, after torn ones and noise, wherever reads of the file end."""
    records: list[Record] = [Arrived(at, at, "x" * at) for at in range(1, 9)]
    write_recording(folder / "a.rec", records)
    data = bytearray((folder / "a.rec").read_bytes())
    whole = [(number, body) for number, _, body in frames(BytesIO(data))]
    second = data.index(b"xx") - 4
    data[second] ^= 0xFF
    data += FRAME.pack(MARK, 5000, 99, 0) + b"\x1e\xf7noise\x1e"
    monkeypatch.setattr("hookline_recording.frames._READ_BYTES", read_bytes)

    found = list(frames(BytesIO(data)))

    assert [number for number, _ in whole] == list(range(1, 9))
    assert [(number, body) for number, _, body in found] == [whole[0], *whole[2:]]
    assert all(data[at : at + len(body)] == body for _, at, body in found)
