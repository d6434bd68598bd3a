"""`/v1/models`."""

from aiohttp import web
from msgspec import UNSET, UnsetType

from hookline_server.adapters import adapters_of, manager_of
from hookline_server.context import ENGINE, STARTED
from hookline_server.handlers.admission import named_adapter, served_names
from hookline_server.handlers.common import json_response
from hookline_server.openapi.operation import Operation, Tag, described
from hookline_server.protocol.listing import ModelCard, ModelList


@described(Operation(tag=Tag.MODELS, answer=ModelList))
async def list_models(request: web.Request) -> web.Response:
    """Lists the names of the served model, and its adapters."""
    names = (*served_names(request.app), *adapters_of(request.app[ENGINE].facts))
    return json_response(ModelList(data=[_card(request, each) for each in names]))


@described(Operation(tag=Tag.MODELS, answer=ModelCard, errors=(404,)))
async def show_model(request: web.Request) -> web.Response:
    """Describes one model."""
    name = request.match_info["model"]
    await named_adapter(request.app, name)
    return json_response(_card(request, name))


def _card(request: web.Request, name: str) -> ModelCard:
    engine = request.app[ENGINE]
    facts, manager = engine.facts, None
    parent: str | UnsetType = UNSET
    if name not in served_names(request.app):
        manager = manager_of(facts)
        named = None if manager is None else manager.parent_of(name)
        parent = named or facts.model_name
    return ModelCard(
        id=name,
        created=request.app[STARTED],
        root=engine.model if manager is None else manager.path_of(name),
        parent=parent,
        max_model_len=facts.model.max_model_len,
        default_sampling_params=dict(facts.model.sampling.values) or UNSET,
    )
