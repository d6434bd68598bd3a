"""`/v1/models`."""

from aiohttp import web
from msgspec import UNSET

from hookline_server.context import ENGINE, STARTED
from hookline_server.handlers.admission import check_model
from hookline_server.handlers.common import json_response
from hookline_server.openapi.operation import Operation, Tag, described
from hookline_server.protocol.listing import ModelCard, ModelList


@described(Operation(tag=Tag.MODELS, answer=ModelList))
async def list_models(request: web.Request) -> web.Response:
    """Lists the served model."""
    return json_response(ModelList(data=[_card(request)]))


@described(Operation(tag=Tag.MODELS, answer=ModelCard, errors=(404,)))
async def show_model(request: web.Request) -> web.Response:
    """Describes one model."""
    check_model(request.app[ENGINE], request.match_info["model"])
    return json_response(_card(request))


def _card(request: web.Request) -> ModelCard:
    engine = request.app[ENGINE]
    facts = engine.facts
    return ModelCard(
        id=facts.model_name,
        created=request.app[STARTED],
        root=engine.model,
        max_model_len=facts.model.max_model_len,
        default_sampling_params=dict(facts.model.sampling.values) or UNSET,
    )
