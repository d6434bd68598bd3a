"""Records what engines decide and compute, and reads it: flight recorder, `--record`."""

from hookline_recording.reading import (
    EngineState,
    NewerRecordingError,
    RecordedRequest,
    RecordedStep,
    Recording,
    RecordingError,
    read_header,
    read_recording,
    read_state,
)

__all__ = [
    "EngineState",
    "NewerRecordingError",
    "RecordedRequest",
    "RecordedStep",
    "Recording",
    "RecordingError",
    "read_header",
    "read_recording",
    "read_state",
]
