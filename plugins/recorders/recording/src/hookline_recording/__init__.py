"""Records what engines decide and compute: flight recorder, `--record`, readers."""

from hookline_recording.reading import (
    NewerRecordingError,
    RecordingError,
    read_header,
    read_recording,
    read_state,
)
from hookline_recording.recording import (
    EngineState,
    FrontEndTimes,
    Gate,
    RecordedRequest,
    RecordedStep,
    Recording,
)

__all__ = [
    "EngineState",
    "FrontEndTimes",
    "Gate",
    "NewerRecordingError",
    "RecordedRequest",
    "RecordedStep",
    "Recording",
    "RecordingError",
    "read_header",
    "read_recording",
    "read_state",
]
