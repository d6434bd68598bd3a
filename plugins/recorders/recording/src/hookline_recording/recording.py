"""Recordings of an engine: a file with every command and every output, in order.

A file is a magic number and a schema version, then messages in msgpack, each behind its
length: a header first, then commands and outputs as they came.
"""

import logging
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from errno import ENOSPC
from pathlib import Path

import msgspec

from hookline import hookimpl
from hookline.config.engine import EngineConfig, path_of_engine
from hookline.engine.commands import (
    SCHEMA_VERSION,
    Add,
    Call,
    Command,
    EngineMessage,
    Finish,
    Reply,
)
from hookline.engine_setup.engine_recorder import EngineRecorderContext
from hookline.events import ClockPair, StepOutput
from hookline.exceptions import ConfigError, HooklineError, SchemaVersionError
from hookline.frozen import plain
from hookline.payloads import EngineFacts
from hookline_processes.frames import LENGTH, FrameError, split_frames
from hookline_processes.private_files import open_private

OPTION = "record"
_PREFIX = struct.Struct("<4sI")
_MAGIC = b"hkrc"
_log = logging.getLogger(__name__)


class RecordingError(HooklineError):
    """A file that is not a readable recording.

    Attributes:
        path: The file.
        reason: Description of the error.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"cannot read {path}: {reason}")
        self.path = path
        self.reason = reason


class RecordingHeader(msgspec.Struct, frozen=True, tag=True):
    """Header of a recording.

    Attributes:
        config: The engine's configuration.
        facts: The engine's facts at its start.
        clock: Its clocks at the start of the recording.
    """

    config: EngineConfig
    facts: EngineFacts
    clock: ClockPair


class RecordedCommand(msgspec.Struct, frozen=True, tag=True):
    """A command, and when the engine took it (monotonic ns)."""

    at: int
    command: Add | Finish | Call


class RecordedOutput(msgspec.Struct, frozen=True, tag=True):
    """A step's output or a state, and when the engine published it (monotonic ns)."""

    at: int
    output: StepOutput


class RecordedReply(msgspec.Struct, frozen=True, tag=True):
    """A reply, and when the engine sent it (monotonic ns)."""

    at: int
    reply: Reply


class Truncated(msgspec.Struct, frozen=True, tag=True):
    """The last entry of a recording that reached its limit.

    Attributes:
        at: Time in monotonic ns.
        max_bytes: The limit.
    """

    at: int
    max_bytes: int


Entry = RecordedCommand | RecordedOutput | RecordedReply | Truncated
_Message = RecordingHeader | Entry


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording that was read.

    Attributes:
        header: Configuration, facts and clock of the recorded engine.
        entries: Commands, outputs and replies in order.
        is_complete: False if the file ends within an entry, as it does when the
            engine's process is killed while it writes.
    """

    header: RecordingHeader
    entries: list[Entry]
    is_complete: bool


class FileRecorder:
    """An `EngineRecorder` that writes a file until it reaches its limit.

    Each entry is written immediately, so none is lost if the process is killed. A file
    that cannot grow, because its disk is full, ends with its last whole entry.

    Attributes:
        dropped: Commands and outputs that came after the file's end.
    """

    def __init__(self, path: Path, header: RecordingHeader, max_bytes: int) -> None:
        """Creates the file, for this user only; one that exists is emptied.

        Raises:
            ConfigError: The file cannot be written.
        """
        self.dropped = 0
        self._path = path
        self._max_bytes = max_bytes
        self._is_full = False
        self._buffer = bytearray()
        self._encode_into = msgspec.msgpack.Encoder(enc_hook=plain).encode_into
        self._size = _PREFIX.size
        try:
            self._file = open_private(path, is_buffered=False)
            self._file.write(_PREFIX.pack(_MAGIC, SCHEMA_VERSION))
            self._write(header)
        except OSError as error:
            raise ConfigError(
                OPTION, f"cannot write {path}: {error.strerror}"
            ) from error

    def command(self, at: int, command: Command) -> None:
        self._add(at, RecordedCommand(at, command))

    def output(self, at: int, message: EngineMessage) -> None:
        if isinstance(message, Reply):
            self._add(at, RecordedReply(at, message))
            return
        self._add(at, RecordedOutput(at, message))

    def close(self) -> None:
        self._file.close()
        if self.dropped:
            _log.warning("%s lacks %d entries beyond its end", self._path, self.dropped)

    def _add(self, at: int, entry: Entry) -> None:
        if self._is_full:
            self.dropped += 1
            return
        try:
            if self._write(entry) > self._max_bytes:
                self._is_full = True
                self._write(Truncated(at, self._max_bytes))
                _log.warning(
                    "recording ends: %s has reached %d bytes",
                    self._path,
                    self._max_bytes,
                )
        except OSError as error:
            self._end(error)

    def _end(self, error: OSError) -> None:
        """Ends the recording where it is whole."""
        self._is_full = True
        self.dropped += 1
        with suppress(OSError):
            self._file.truncate(self._size)
        _log.error("recording ends: cannot write %s: %s", self._path, error.strerror)

    def _write(self, message: _Message) -> int:
        """Writes a message; returns the size of the file."""
        self._encode_into(message, self._buffer, LENGTH.size)
        LENGTH.pack_into(self._buffer, 0, len(self._buffer) - LENGTH.size)
        if self._file.write(self._buffer) != len(self._buffer):
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        self._size += len(self._buffer)
        return self._size


@hookimpl
def create_engine_recorder(context: EngineRecorderContext) -> FileRecorder | None:
    """Records to the file of `--record`, if one is given.

    Raises:
        ConfigError: It cannot be written.
    """
    config, observers = context.config, context.config.observers
    if observers.record is None:
        return None
    header = RecordingHeader(config, context.facts, context.clock)
    path = Path(path_of_engine(observers.record, config.engine_index))
    return FileRecorder(path, header, observers.record_max_bytes)


def read_recording(path: Path) -> Recording:
    """Reads a file that a `FileRecorder` wrote.

    Raises:
        SchemaVersionError: It is of another version of Hookline.
        RecordingError: It is not a recording, or it is damaged.
    """
    data = path.read_bytes()
    if len(data) < _PREFIX.size or not data.startswith(_MAGIC):
        raise RecordingError(str(path), "not a recording of Hookline")
    _, version = _PREFIX.unpack_from(data)
    if version != SCHEMA_VERSION:
        raise SchemaVersionError(str(path), version, SCHEMA_VERSION)
    decode = msgspec.msgpack.Decoder(_Message).decode
    messages, is_complete = list[_Message](), True
    try:
        for body in split_frames(memoryview(data)[_PREFIX.size :]):
            messages.append(decode(body))
    except FrameError:
        is_complete = False
    # msgspec's errors are ValueErrors; a configuration checks itself when it is made.
    except (ValueError, RecursionError, ConfigError) as error:
        raise RecordingError(str(path), f"damaged: {error}") from error
    if not messages or not isinstance(messages[0], RecordingHeader):
        raise RecordingError(str(path), "damaged: it does not begin with a header")
    entries = [each for each in messages if not isinstance(each, RecordingHeader)]
    return Recording(messages[0], entries, is_complete)
