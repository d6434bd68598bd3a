"""Records what engines decide and compute: flight recorder, `--record`, readers."""

from typing import TYPE_CHECKING

from hookline.moved_modules import lazy_exports

if TYPE_CHECKING:
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

__getattr__ = lazy_exports(
    __name__,
    {
        "hookline_recording.reading": (
            "NewerRecordingError",
            "RecordingError",
            "read_header",
            "read_recording",
            "read_state",
        ),
        "hookline_recording.recording": (
            "EngineState",
            "FrontEndTimes",
            "Gate",
            "RecordedRequest",
            "RecordedStep",
            "Recording",
        ),
    },
)
