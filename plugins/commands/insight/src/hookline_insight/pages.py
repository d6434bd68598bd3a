"""Stat logger `insight`: the pages `/why` and `/why/{id}`, from the server's rings.

It also logs what bounds an engine, once that changes.
"""

import logging
import os
from collections.abc import Mapping

from hookline import hookimpl
from hookline.pages import PageRequest, PageResponse, Routes
from hookline.payloads import EngineStopped, LoggerContext, StepFinished
from hookline_insight.answers import answers, missing, shown
from hookline_insight.bound_watch import BoundWatch
from hookline_insight.explainer import Explainer
from hookline_insight.paths import PATH
from hookline_insight.selection import Selection, selected
from hookline_insight.sources import explainers
from hookline_recording.folder import find_rings

_log = logging.getLogger(__name__)
_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"


class Insight:
    """Answers from the rings of the engines of this server, and watches its limits."""

    def __init__(self) -> None:
        self._watches: dict[int, BoundWatch] = {}

    @hookimpl
    def engine_stopped(self, stopped: EngineStopped) -> None:
        self._watches.pop(stopped.engine_index, None)

    @hookimpl
    def step_finished(self, step: StepFinished) -> None:
        index = step.engine_index
        if (watch := self._watches.get(index)) is None:
            watch = self._watches[index] = BoundWatch()
        if told := watch.step(step.record):
            _log.info("engine %d is now bound by %s", index, told)

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        routes.get(PATH, self._list)
        routes.get(f"{PATH}/{{id}}", self._why)

    def _why(self, request: PageRequest) -> PageResponse:
        name, is_json = request.path_values["id"], _wants_json(request)
        read = _explainers()
        found = answers(name, read)
        if not found:
            return _text(missing(name, read), 404)
        return _reply(shown(found, is_json=is_json, is_list=False), is_json=is_json)

    def _list(self, request: PageRequest) -> PageResponse:
        query: Mapping[str, str] = request.query
        try:
            selection = Selection.of(
                int(query["slowest"]) if "slowest" in query else None,
                query.get("misses"),
                query.get("tenant"),
            )
        except ValueError as error:
            return _text(str(error), 400)
        found = selected(selection or Selection(), _explainers())
        is_json = _wants_json(request)
        return _reply(shown(found, is_json=is_json, is_list=True), is_json=is_json)


def _explainers() -> list[Explainer]:
    owners = {os.getpid(), os.getppid()}
    paths = [path for path, header in find_rings() if header.owner_pid in owners]
    return list(explainers(paths))


def _wants_json(request: PageRequest) -> bool:
    accepts = request.headers.get("accept", "")
    return request.query.get("format") == "json" or accepts.startswith(_JSON)


def _reply(text: str, *, is_json: bool) -> PageResponse:
    kind = _JSON if is_json else _TEXT
    return PageResponse(body=f"{text}\n".encode(), content_type=kind)


def _text(text: str, status: int) -> PageResponse:
    return PageResponse(body=f"{text}\n".encode(), content_type=_TEXT, status=status)


@hookimpl
def create_stat_logger(context: LoggerContext) -> Insight:
    del context
    return Insight()
