"""Records what engines decide and compute: flight recorder, `--record`, readers."""

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
