"""Stat logger `insight`: the pages `/why`, `/why/{id}` and `/stalled`, from the rings.

It also logs what bounds an engine, once that changes.
"""

import logging

from hookline import hookimpl
from hookline.pages import PageRequest, PageResponse, Routes
from hookline.payloads import EngineStopped, LoggerContext, StepFinished
from hookline.tells import Tells
from hookline_insight.answers import PATH, STALLED_PATH
from hookline_insight.asking import Question, ask
from hookline_insight.bound_watch import BoundWatch
from hookline_recording.folder import owner_of_engines

_log = logging.getLogger(__name__)
_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
_OK = 200


class Insight:
    """Answers from the rings of the engines of this server, and watches its limits."""

    def __init__(self, owner_pid: int) -> None:
        """Answers of the engines that this process owns."""
        self._owner_pid = owner_pid
        self._watches: dict[int, BoundWatch] = {}

    @hookimpl
    def engine_stopped(self, stopped: EngineStopped) -> None:
        self._watches.pop(stopped.engine_index, None)

    @hookimpl
    def step_finished(self, step: StepFinished) -> None:
        index = step.engine_index
        if (watch := self._watches.get(index)) is None:
            watch = self._watches[index] = BoundWatch()
        if told := watch.step(step):
            _log.info("engine %d is bound by %s", index, told)

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        routes.get(PATH, self._list)
        routes.get(f"{PATH}/{{id}}", self._why)
        routes.get(STALLED_PATH, self._stalled)

    def _why(self, request: PageRequest) -> PageResponse:
        return self._answer(request, request.path_values["id"])

    def _list(self, request: PageRequest) -> PageResponse:
        return self._answer(request, None)

    def _stalled(self, request: PageRequest) -> PageResponse:
        return self._answer(request, None, is_stalled=True)

    def _answer(
        self, request: PageRequest, name: str | None, *, is_stalled: bool = False
    ) -> PageResponse:
        accepts = request.headers.get("accept", "")
        is_json = request.query.get("format") == "json" or accepts.startswith(_JSON)
        query = dict(request.query)
        reply = ask(Question(self._owner_pid, name, query, is_json, is_stalled))
        kind = _JSON if is_json and reply.status == _OK else _TEXT
        return PageResponse(
            body=f"{reply.text}\n".encode(), content_type=kind, status=reply.status
        )


@hookimpl
def logger_needs() -> tuple[Tells, ...]:
    return (Tells.PLAN,)


@hookimpl
def create_stat_logger(context: LoggerContext) -> Insight:
    is_apart = context.config.observers.observer_process
    return Insight(owner_of_engines(is_apart=is_apart))
