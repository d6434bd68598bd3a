"""`POST /sleep`, `POST /wake_up` and `GET /is_sleeping`, served where enabled."""

from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

import msgspec
from aiohttp import web

from hookline.core.commands import IsSleeping, Sleep, SleepMode, SleepState, WakeUp
from hookline.step import SleepLevel
from hookline_server.api_error import ApiError
from hookline_server.handlers.common import json_response, ready_engine

E = TypeVar("E", bound=Enum)


class SleepAnswer(msgspec.Struct, frozen=True):
    """The state of the engine, or the deepest sleep of several.

    Attributes:
        is_sleeping: Whether an engine sleeps.
        level: 0 while all are awake.
    """

    is_sleeping: bool
    level: int


async def sleep(request: web.Request) -> web.Response:
    """Puts the engine to sleep; answers once its memory is released."""
    level = _parameter(request, "level", {str(int(one)): one for one in SleepLevel})
    mode = _parameter(request, "mode", {one.value: one for one in SleepMode})
    command = Sleep(level or SleepLevel.KV_CACHE, mode or SleepMode.KEEP)
    return _answer(await ready_engine(request).call(command))


async def wake_up(request: web.Request) -> web.Response:
    """Wakes the engine up; answers once it can run steps."""
    return _answer(await ready_engine(request).call(WakeUp()))


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


def _parameter(request: web.Request, name: str, values: dict[str, E]) -> E | None:
    """Reads a query parameter; None if it is absent."""
    if (text := request.query.get(name)) is None:
        return None
    if text not in values:
        message = f"{name} must be one of {', '.join(values)}, not {text!r}"
        raise ApiError(400, message, code="invalid_request", param=name)
    return values[text]
