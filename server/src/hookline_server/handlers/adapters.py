"""Loads, unloads, pins and lists adapters."""

from collections.abc import Sequence
from functools import partial

from aiohttp import web

from hookline_server.adapters import (
    AdapterManager,
    AdapterToLoad,
    ServedAdapter,
    manager_of,
)
from hookline_server.api_error import ApiError
from hookline_server.context import ENGINE
from hookline_server.handlers.admission import ready_engine, served_names
from hookline_server.handlers.common import json_response
from hookline_server.openapi.operation import (
    ADMINISTRATION_ERRORS,
    Operation,
    Tag,
    described,
)
from hookline_server.protocol.adapters import (
    AdapterChanged,
    AdapterList,
    LoadAdapterRequest,
    UnloadAdapterRequest,
)
from hookline_server.request_body import read_message

_change = partial(
    Operation, tag=Tag.ADMINISTRATION, errors=(400, 403, 404, *ADMINISTRATION_ERRORS)
)


@described(_change(body=LoadAdapterRequest, media_type="text/plain"))
async def load_lora_adapter(request: web.Request) -> web.Response:
    """Loads an adapter; answers once every engine can serve it."""
    name = await _load(request)
    return web.Response(text=f"Success: LoRA adapter '{name}' added successfully.")


@described(_change(body=UnloadAdapterRequest, media_type="text/plain"))
async def unload_lora_adapter(request: web.Request) -> web.Response:
    """Unloads an adapter; answers once its requests have ended and it is gone."""
    name = await _unload(request)
    return web.Response(text=f"Success: LoRA adapter '{name}' removed successfully.")


@described(_change(body=LoadAdapterRequest, answer=AdapterChanged))
async def load_by_sglang(request: web.Request) -> web.Response:
    """Does what `/v1/load_lora_adapter` does, by SGLang's names."""
    await _load(request)
    return await _changed(request)


@described(_change(body=UnloadAdapterRequest, answer=AdapterChanged))
async def unload_by_sglang(request: web.Request) -> web.Response:
    """Does what `/v1/unload_lora_adapter` does, by SGLang's names."""
    await _unload(request)
    return await _changed(request)


@described(Operation(tag=Tag.MODELS, answer=AdapterList, errors=(400, 503)))
async def list_adapters(request: web.Request) -> web.Response:
    """Lists the adapters, and where their weights are."""
    return json_response(AdapterList(data=list(await _served(request))))


@described(_change(answer=AdapterList))
async def pin_adapter(request: web.Request) -> web.Response:
    """Keeps an adapter in memory."""
    return await _pin(request, is_pinned=True)


@described(_change(answer=AdapterList))
async def unpin_adapter(request: web.Request) -> web.Response:
    """Lets an adapter leave memory again."""
    return await _pin(request, is_pinned=False)


ADAPTER_ROUTES = (
    web.get("/v1/adapters", list_adapters),
    web.post("/v1/adapters/{adapter}/pin", pin_adapter),
    web.delete("/v1/adapters/{adapter}/pin", unpin_adapter),
    web.post("/v1/load_lora_adapter", load_lora_adapter),
    web.post("/v1/unload_lora_adapter", unload_lora_adapter),
    web.post("/load_lora_adapter", load_by_sglang),
    web.post("/unload_lora_adapter", unload_by_sglang),
)


def _manager(request: web.Request) -> AdapterManager:
    """Raises `ApiError` if the engine is not ready, or its adapters do not change."""
    if (manager := manager_of(ready_engine(request).facts)) is None:
        raise ApiError(
            400,
            "this server serves no LoRA adapters that can be loaded: start it with "
            "--enable-lora",
            code="adapters_disabled",
        )
    return manager


async def _load(request: web.Request) -> str:
    manager = _manager(request)
    body = await read_message(request, LoadAdapterRequest)
    adapter = AdapterToLoad(
        name=body.lora_name,
        path=body.lora_path,
        base_model_name=body.base_model_name,
        is_pinned=body.pinned,
        replaces=body.load_inplace,
    )
    await manager.load(
        request.app[ENGINE].call, adapter, taken=served_names(request.app)
    )
    return body.lora_name


async def _unload(request: web.Request) -> str:
    manager = _manager(request)
    body = await read_message(request, UnloadAdapterRequest)
    call = request.app[ENGINE].call
    await manager.unload(call, body.lora_name, aborts=body.mode == "abort")
    return body.lora_name


async def _pin(request: web.Request, *, is_pinned: bool) -> web.Response:
    name, call = request.match_info["adapter"], request.app[ENGINE].call
    await _manager(request).pin(call, name, is_pinned=is_pinned)
    return await list_adapters(request)


async def _served(request: web.Request) -> Sequence[ServedAdapter]:
    return await _manager(request).served(request.app[ENGINE].call)


async def _changed(request: web.Request) -> web.Response:
    paths = {each.name: each.path for each in await _served(request)}
    return json_response(AdapterChanged(loaded_adapters=paths))
