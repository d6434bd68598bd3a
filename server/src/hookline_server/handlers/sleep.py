"""`POST /sleep`, `POST /wake_up` and `GET /is_sleeping`, served where enabled."""

from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

import msgspec
from aiohttp import web

from hookline.engine.commands import IsSleeping, Sleep, SleepMode, SleepState, WakeUp
from hookline.step import SleepLevel
from hookline_server.api_error import ApiError
from hookline_server.context import SCALING
from hookline_server.handlers.admission import ready_engine
from hookline_server.handlers.common import json_response
from hookline_server.openapi.operation import (
    ADMINISTRATION_ERRORS,
    Operation,
    Tag,
    described,
)

E = TypeVar("E", bound=Enum)


class SleepAnswer(msgspec.Struct, frozen=True):
    """The state of the engine, or the deepest sleep of several.

    Attributes:
        is_sleeping: Whether an engine sleeps.
        level: 0 while all are awake.
    """

    is_sleeping: bool
    level: int


class SleepQuery(msgspec.Struct, frozen=True):
    """Parameters of `/sleep`."""

    level: SleepLevel = SleepLevel.KV_CACHE
    mode: SleepMode = SleepMode.KEEP


_WITHOUT_QUERY = described(
    Operation(tag=Tag.ADMINISTRATION, answer=SleepAnswer, errors=ADMINISTRATION_ERRORS)
)


@described(
    Operation(
        tag=Tag.ADMINISTRATION,
        query=SleepQuery,
        answer=SleepAnswer,
        errors=(400, *ADMINISTRATION_ERRORS),
    )
)
async def sleep(request: web.Request) -> web.Response:
    """Puts the engine to sleep; answers once its memory is released."""
    default = SleepQuery()
    level = _parameter(request, "level", default.level)
    mode = _parameter(request, "mode", default.mode)
    engine = ready_engine(request)
    if (await request.app[SCALING].report()).is_changing:
        message = "engines come or go: one that joins would be awake; try again later"
        raise ApiError(409, message, code="scaling_in_progress")
    return _answer(await engine.call(Sleep(level, mode)))


@_WITHOUT_QUERY
async def wake_up(request: web.Request) -> web.Response:
    """Wakes the engine up; answers once it can run steps."""
    return _answer(await ready_engine(request).call(WakeUp()))


@_WITHOUT_QUERY
async def is_sleeping(request: web.Request) -> web.Response:
    """Answers whether the engine sleeps."""
    return _answer(await ready_engine(request).call(IsSleeping()))


SLEEP_ROUTES = (
    web.post("/sleep", sleep),
    web.post("/wake_up", wake_up),
    web.get("/is_sleeping", is_sleeping),
)


def _answer(states: Iterable[SleepState]) -> web.Response:
    level = max(int(state.level or 0) for state in states)
    return json_response(SleepAnswer(is_sleeping=level > 0, level=level))


def _parameter(request: web.Request, name: str, default: E) -> E:
    """Reads a query parameter."""
    if (text := request.query.get(name)) is None:
        return default
    values = {str(each.value): each for each in type(default)}
    if text not in values:
        message = f"{name} must be one of {', '.join(values)}, not {text!r}"
        raise ApiError(400, message, code="invalid_request", param=name)
    return values[text]
