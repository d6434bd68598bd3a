"""The logger: feeds a recorder from the hooks and serves its metrics."""

from pathlib import Path

from hookline.clock import Clock, SystemClock
from hookline.config import EngineConfig
from hookline.hookspecs import hookimpl
from hookline.pages import PageRequest, PageResponse, Routes
from hookline.payloads import (
    EngineFailed,
    EngineStarted,
    EngineStopped,
    FrontEndChanged,
    HttpAnswered,
    StateChanged,
    StepFinished,
)
from hookline_metrics import Recorder
from hookline_metrics.keeper import Keeper
from hookline_prometheus.content_coding import GZIP, accepts_gzip
from hookline_prometheus.exposition import MediaType, choose_format
from hookline_prometheus.name_selection import selected_names
from hookline_prometheus.options import Options
from hookline_prometheus.page import Page
from hookline_prometheus.process_families import ProcessFamilies


class PrometheusLogger:
    """Exposes metrics of the engine, the process and the Python interpreter.

    Attributes:
        recorder: The engine's metrics.
    """

    def __init__(
        self,
        config: EngineConfig,
        options: Options | None = None,
        *,
        clock: Clock | None = None,
        kept: Path | None = None,
    ) -> None:
        """Creates the recorder that the configuration describes.

        Args:
            config: The engine's configuration.
            options: Those of the logger; the defaults if None.
            clock: The system's if None.
            kept: File of the sums that the next process's recorder goes on with; None
                if there will be none.

        Raises:
            ConfigError: The metrics configuration is invalid.
        """
        options = options or Options()
        clock = clock or SystemClock()
        self.recorder = Recorder(
            config, clock=clock, native_schema=options.native_schema
        )
        self._keeper = None if kept is None else Keeper(kept, self.recorder)
        self._process = ProcessFamilies(clock)
        self._pages = {
            media_type: Page(
                media_type,
                self.recorder,
                self._process,
                options,
            )
            for media_type in MediaType
        }

    @hookimpl
    def engine_started(self, started: EngineStarted) -> None:
        self.recorder.engine_started(started)

    @hookimpl
    def engine_stopped(self, stopped: EngineStopped) -> None:
        self.recorder.engine_stopped(stopped)

    @hookimpl
    def engine_failed(self, failed: EngineFailed) -> None:
        self.recorder.engine_failed(failed)

    @hookimpl
    def step_finished(self, step: StepFinished) -> None:
        self.recorder.step_finished(step)
        if self._keeper is not None:
            self._keeper.keep_now_and_then()

    @hookimpl
    def state_changed(self, state: StateChanged) -> None:
        self.recorder.state_changed(state)
        self._process.renew()
        if self._keeper is not None:
            self._keeper.keep_now_and_then()

    @hookimpl
    def http_answered(self, answered: HttpAnswered) -> None:
        self.recorder.http_answered(answered)
        if self._keeper is not None:
            self._keeper.keep_now_and_then()

    @hookimpl
    def front_end_changed(self, changed: FrontEndChanged) -> None:
        self.recorder.front_end_changed(changed)

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        routes.get("/metrics", self.page)

    def page(self, request: PageRequest) -> PageResponse:
        """Answers a scrape in the client's preferred format and coding."""
        chosen = choose_format(request.headers.get("accept", ""))
        page = self._pages[chosen.media_type]
        self.recorder.page_asked(request.behind_seconds)
        names = selected_names(request.query_values)
        rendered = page.select(names) if names else page.render()
        if self._keeper is not None:  # no counter falls below what was shown
            self._keeper.keep()
        headers = {"Vary": "Accept, Accept-Encoding"}
        body = rendered.text
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            headers["Content-Encoding"] = GZIP
            body = rendered.gzipped()
        return PageResponse(
            body=body, content_type=chosen.content_type, headers=headers
        )
