"""The logger: feeds a recorder from the hooks and serves it as a page."""

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
)

from hookline.hookspecs import hookimpl
from hookline.metrics import Recorder
from hookline.payloads import (
    EngineFailed,
    EngineStarted,
    EngineStopped,
    PageRequest,
    PageResponse,
    Routes,
    StateChanged,
    StepFinished,
)
from hookline_prometheus.collector import CatalogueCollector
from hookline_prometheus.exposition import choose_format


class PrometheusLogger:
    """Exposes the catalogue, the process and the interpreter from its own registry.

    Attributes:
        recorder: The sums that are exposed.
    """

    def __init__(self, dialects: tuple[str, ...]) -> None:
        self.recorder = Recorder()
        self._registry = CollectorRegistry()
        self._registry.register(CatalogueCollector(self.recorder, dialects))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

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

    @hookimpl
    def state_changed(self, state: StateChanged) -> None:
        self.recorder.state_changed(state)

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        routes.get("/metrics", self.page)

    def page(self, request: PageRequest) -> PageResponse:
        """Answers a scrape in the format it prefers."""
        chosen = choose_format(request.headers.get("accept", ""))
        return PageResponse(
            body=chosen.render(self._registry), content_type=chosen.content_type
        )
