"""`/v1/models`."""

from aiohttp import web
from msgspec import UNSET

from hookline_server.adapters import adapters_of
from hookline_server.context import ENGINE, STARTED
from hookline_server.handlers.admission import check_model
from hookline_server.handlers.common import json_response
from hookline_server.openapi.operation import Operation, Tag, described
from hookline_server.protocol.listing import ModelCard, ModelList


@described(Operation(tag=Tag.MODELS, answer=ModelList))
async def list_models(request: web.Request) -> web.Response:
    """Lists the served model and its adapters."""
    names = (None, *adapters_of(request.app[ENGINE].facts))
    return json_response(ModelList(data=[_card(request, each) for each in names]))


@described(Operation(tag=Tag.MODELS, answer=ModelCard, errors=(404,)))
async def show_model(request: web.Request) -> web.Response:
    """Describes one model."""
    adapter = check_model(request.app[ENGINE], request.match_info["model"])
    return json_response(_card(request, adapter))


def _card(request: web.Request, adapter: str | None) -> ModelCard:
    engine = request.app[ENGINE]
    facts = engine.facts
    return ModelCard(
        id=adapter or facts.model_name,
        created=request.app[STARTED],
        root=engine.model,
        parent=facts.model_name if adapter else UNSET,
        max_model_len=facts.model.max_model_len,
        default_sampling_params=dict(facts.model.sampling.values) or UNSET,
    )
