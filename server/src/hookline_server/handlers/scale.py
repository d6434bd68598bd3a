"""`POST /scale` and `GET /scale`, also by vLLM's names, served where enabled."""

from collections.abc import Iterator, Mapping

from aiohttp import web

from hookline.exceptions import ConfigError, HooklineError
from hookline_server.api_error import ApiError
from hookline_server.context import SCALING
from hookline_server.engine_number import (
    DrainTimeoutError,
    ScalingBusyError,
    ScalingReport,
    ScalingState,
    StartFailedError,
)
from hookline_server.handlers.admission import ready_engine
from hookline_server.handlers.common import json_response
from hookline_server.openapi.operation import (
    ADMINISTRATION_ERRORS,
    Operation,
    Tag,
    described,
)
from hookline_server.protocol.scaling import (
    ElasticRequest,
    ElasticScaled,
    ElasticState,
    EngineInScale,
    Scale,
    ScaleRequest,
    check_drain_timeout,
)
from hookline_server.request_body import read_message

_ERRORS = (400, *ADMINISTRATION_ERRORS)
_CODES: Mapping[type[HooklineError], tuple[int, str]] = {
    ConfigError: (409, "scaling_not_supported"),
    ScalingBusyError: (409, "scaling_in_progress"),
    StartFailedError: (503, "engine_start_failed"),
    DrainTimeoutError: (504, "drain_timeout"),
}


@described(
    Operation(tag=Tag.ADMINISTRATION, body=ScaleRequest, answer=Scale, errors=_ERRORS)
)
async def scale(request: web.Request) -> web.Response:
    """Brings the engines to a number; answers once they have come or gone."""
    ready_engine(request)
    body = await read_message(request, ScaleRequest)
    await _scale(request, body.data_parallel_size, body.drain_timeout)
    return json_response(_answer(await request.app[SCALING].report()))


@described(Operation(tag=Tag.ADMINISTRATION, answer=Scale))
async def show_scale(request: web.Request) -> web.Response:
    """Returns the engines, and what they do."""
    return json_response(_answer(await request.app[SCALING].report()))


@described(
    Operation(
        tag=Tag.ADMINISTRATION,
        body=ElasticRequest,
        answer=ElasticScaled,
        errors=_ERRORS,
    )
)
async def scale_elastic_ep(request: web.Request) -> web.Response:
    """Does what `/scale` does, by vLLM's names."""
    ready_engine(request)
    body = await read_message(request, ElasticRequest)
    number = body.new_data_parallel_size
    await _scale(request, number, body.drain_timeout)
    return json_response(ElasticScaled(f"Scaled to {number} data parallel engines"))


@described(Operation(tag=Tag.ADMINISTRATION, answer=ElasticState))
async def is_scaling_elastic_ep(request: web.Request) -> web.Response:
    """Returns whether engines come or go, by vLLM's name."""
    report = await request.app[SCALING].report()
    return json_response(ElasticState(report.is_changing))


SCALE_ROUTES = (
    web.post("/scale", scale),
    web.get("/scale", show_scale),
    web.post("/scale_elastic_ep", scale_elastic_ep),
    web.post("/is_scaling_elastic_ep", is_scaling_elastic_ep),
)


async def _scale(request: web.Request, number: int, drain_timeout: float) -> None:
    check_drain_timeout(drain_timeout)
    try:
        await request.app[SCALING].scale(number, drain_seconds=drain_timeout)
    except tuple(_CODES) as error:
        status, code = _CODES[type(error)]
        param = error.option if isinstance(error, ConfigError) else None
        raise ApiError(status, str(error), code=code, param=param) from error


def _answer(report: ScalingReport) -> Scale:
    state = report.state
    return Scale(
        data_parallel_size=len(state.serving),
        wanted=report.wanted,
        is_scaling=not state.is_settled,
        engines=sorted(_engines(state), key=lambda each: each.engine),
    )


def _engines(state: ScalingState) -> Iterator[EngineInScale]:
    for name in ("serving", "starting", "leaving"):
        for index in getattr(state, name):
            yield EngineInScale(index, name)
