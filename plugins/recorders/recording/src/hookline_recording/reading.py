"""Reads recordings: rings of running, hung or dead engines, and saved files.

`read_recording` returns a `Recording`. Needs neither torch nor an engine.
"""

from collections import defaultdict
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from zlib import crc32

import msgspec

from hookline.clock import NANOSECONDS
from hookline_recording.frames import frames
from hookline_recording.front_end_schema import (
    FRONT_END_NUMBERS,
    NUMBERS_OF_FRONT_END,
    Answered,
    Served,
)
from hookline_recording.recording import EngineState, Recording
from hookline_recording.schema import (
    FORMER_MAGIC,
    FRAME,
    HEADER_BYTES,
    MAGIC,
    PREFIX,
    STATE,
    STATE_AT,
    VERSION,
    Header,
    Record,
    decoded,
)

_FIRST_STEP = 10
"""The first step may compile kernels: how many times as long it may take."""
RING, FRONT_END = ".ring", ".front"
"""Suffixes of the rings of engines and front ends."""


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


def read_header(path: Path) -> Header:
    """Reads what a recording is of.

    Raises:
        NewerRecordingError: Its schema is newer than this reader.
        RecordingError: It is no recording, or damaged.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return _header(path, file.read(HEADER_BYTES))


def front_ends_of(ring: Path) -> list[Path]:
    """Returns the rings of the front ends of a ring's server; none of a saved one."""
    if ring.suffix != RING:
        return []
    try:
        owner = read_header(ring).owner_pid
    except (OSError, ValueError):
        return []
    return sorted(ring.parent.glob(f"front-{owner}-*{FRONT_END}"))


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


def stalled_seconds(state: EngineState, header: Header, now: int) -> float:
    """Returns for how long an engine has not moved although it has work.

    Args:
        state: What it shows.
        header: Of its ring.
        now: The monotonic clock, which all processes of a machine share, ns.
    """
    since = state.busy_since
    if not since and state.open_requests:
        # Between two steps: whatever requests wait for, its heartbeat goes on.
        since = state.at + header.heartbeat_ns
    if not since:
        return 0.0
    waited = (now - since) / NANOSECONDS
    return max(0.0, waited / _FIRST_STEP if state.steps <= 1 else waited)


def read_recording(path: Path, newest: int | None = None) -> Recording:
    """Reads a ring or a saved recording.

    Damaged records are left out and counted.

    Args:
        path: The file.
        newest: How many of the engine's newest records are read; older ones then count
            as overwritten. None for all.

    Raises:
        NewerRecordingError: Its schema is newer than this reader.
        RecordingError: It is no recording, or its header is damaged.
        OSError: It cannot be read.
    """
    data = path.read_bytes()
    header = _header(path, data[:HEADER_BYTES])
    found = _bodies(data)
    for front_end in front_ends_of(path):
        with suppress(OSError):  # it may end meanwhile
            found |= _bodies(front_end.read_bytes())
    by_writer: defaultdict[int, list[int]] = defaultdict(list)
    for number in sorted(found):
        of_engine = number < FRONT_END_NUMBERS
        by_writer[0 if of_engine else number // NUMBERS_OF_FRONT_END].append(number)
    if newest is not None:
        by_writer[0] = by_writer[0][-newest:]
    records: list[Record] = []
    front_end_records: list[Served | Answered] = []
    lost = 0
    for numbers in filter(None, by_writer.values()):
        lost += numbers[-1] - numbers[0] + 1
        for number in numbers:
            if (record := decoded(found[number])) is None:
                continue
            lost -= 1
            if isinstance(record, Served | Answered):
                front_end_records.append(record)
            else:
                records.append(record)
    return Recording(
        header=header,
        state=EngineState(*STATE.unpack_from(data, STATE_AT)),
        records=records,
        lost=lost,
        overwritten=by_writer[0][0] - 1 if by_writer[0] else 0,
        front_end=sorted(front_end_records, key=lambda each: each.at),
        record_bytes=sum(FRAME.size + len(found[number]) for number in by_writer[0]),
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


def _bodies(data: bytes) -> dict[int, bytes]:
    return {number: body for number, _, body in frames(BytesIO(data))}
