"""Engine recorder `file`: every command and every output of an engine, in a file."""

from hookline_recording.recording import (
    Entry,
    FileRecorder,
    RecordedCommand,
    RecordedOutput,
    RecordedReply,
    Recording,
    RecordingError,
    RecordingHeader,
    Truncated,
    read_recording,
)

__all__ = [
    "Entry",
    "FileRecorder",
    "RecordedCommand",
    "RecordedOutput",
    "RecordedReply",
    "Recording",
    "RecordingError",
    "RecordingHeader",
    "Truncated",
    "read_recording",
]
