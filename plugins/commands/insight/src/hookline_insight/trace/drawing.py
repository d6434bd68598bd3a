"""Draws recordings: engines one after another, each a window of steps at a time."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from hookline_insight.sources import is_live
from hookline_insight.trace.canvas import Canvas
from hookline_insight.trace.engine import EngineRows
from hookline_insight.trace.excerpts import STEPS, costs_of, windows
from hookline_insight.trace.requests import RequestRows
from hookline_insight.wording import safe
from hookline_recording.streaming import RecordStream

MakeCanvas = Callable[[BinaryIO, int], Canvas]
"""Begins a trace in a file, at a time of the wall clock."""


def draw(
    paths: Sequence[Path],
    file: BinaryIO,
    make: MakeCanvas,
    *,
    steps_at_once: int = STEPS,
) -> int:
    """Draws the recordings of engines.

    Args:
        paths: The recordings.
        file: Where the trace goes.
        make: Its format.
        steps_at_once: Steps that are held at a time.

    Returns:
        Number of steps drawn.

    Raises:
        RecordingError: One is no recording.
        OSError: One cannot be read, or the trace not be written.
    """
    canvas: Canvas | None = None
    drawn = 0
    for path in paths:
        now = time.monotonic_ns() if is_live(path) else None
        with RecordStream(path) as stream:
            if canvas is None:
                canvas = make(file, stream.header.wall)
            drawn += draw_engine(stream, canvas, now, steps_at_once=steps_at_once)
    if canvas is not None:
        canvas.close()
    return drawn


def draw_engine(
    stream: RecordStream, canvas: Canvas, now: int | None, *, steps_at_once: int
) -> int:
    """Draws one engine; returns the number of its steps."""
    header = stream.header
    offset = header.wall - header.monotonic
    name = f"engine {header.engine_index}: {safe(header.model)}"
    engine = canvas.engine(header.pid, name)
    rows = EngineRows(canvas, engine, offset)
    requests = RequestRows(canvas, engine, offset)
    costs = costs_of(stream, now, steps_at_once)
    for window in windows(stream, costs, now, steps_at_once):
        ended = requests.draw(window)
        rows.draw(window, requests)
        for request_id in ended:
            window.past.forget(request_id)
    return rows.steps
