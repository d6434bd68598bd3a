"""The pages of the live view."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from hookline import hookimpl
from hookline.pages import PageEvent, PageRequest, PageResponse, Routes
from hookline.payloads import LoggerContext, StateChanged
from hookline.tells import Tells
from hookline_live.feed import Feed, moment
from hookline_live.frame import Frame, LaneFrame
from hookline_recording.folder import owner_of_engines

PATH = "/live"
FRAMES, MOMENT = f"{PATH}/frames", f"{PATH}/moment"
_STATIC = Path(__file__).parent / "static"
_MOST_MS = 1 << 50
_encode = msgspec.json.Encoder().encode


class LiveView:
    """Serves frames of all engines of the server, each encoded once for all viewers."""

    def __init__(self, owner_pid: int, objectives: Mapping[str, float]) -> None:
        """Shows a server's engines.

        Args:
            owner_pid: The server's process.
            objectives: Objectives of requests that name none, in seconds.
        """
        self._owner_pid = owner_pid
        self._objectives = dict(objectives)
        self._lanes: list[LaneFrame] = []

    @hookimpl
    def state_changed(self, state: StateChanged) -> None:
        if state.lanes:
            self._lanes = [
                LaneFrame(
                    each.name,
                    each.delivered,
                    each.depth,
                    each.dropped,
                    each.errors,
                    each.busy_seconds,
                    str(each.breaker),
                )
                for each in state.lanes
            ]

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        routes.events(FRAMES, self.frames)
        routes.get(MOMENT, self.moment)
        routes.files(PATH, _STATIC, is_public=True)

    def frames(self) -> Iterator[PageEvent]:
        for frame in Feed(self._owner_pid).frames():
            yield PageEvent(data=_encode(self._completed(frame)).decode())

    def frame_at(self, wall: int) -> Frame:
        """Returns the window that ends at a moment of the wall clock, in ns."""
        return self._completed(moment(self._owner_pid, wall))

    def moment(self, request: PageRequest) -> PageResponse:
        """Returns the window that ends at `at`, in ms since the epoch, or now."""
        asked = request.query.get("at", "")
        wall = time.time_ns()
        if asked:
            if not asked.isdecimal() or int(asked) > _MOST_MS:
                body = b'{"error": {"message": "at is a time in ms since the epoch"}}'
                return PageResponse(
                    body=body, content_type="application/json", status=400
                )
            wall = int(asked) * 1_000_000
        return PageResponse(
            body=_encode(self.frame_at(wall)),
            content_type="application/json",
            headers={"Cache-Control": "no-store"},
        )

    def _completed(self, frame: Frame) -> Frame:
        frame.lanes, frame.objectives = self._lanes, self._objectives
        return frame


@hookimpl
def logger_needs() -> tuple[Tells, ...]:
    return (Tells.PLAN,)


@hookimpl
def create_stat_logger(context: LoggerContext) -> LiveView:
    observers = context.config.observers
    owner_pid = owner_of_engines(is_apart=observers.observer_process)
    slo = observers.slo
    return LiveView(owner_pid, {} if slo is None else msgspec.to_builtins(slo))
