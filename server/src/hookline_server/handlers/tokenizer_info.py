"""`/tokenizer_info`."""

import msgspec
from aiohttp import web

from hookline_server.context import ENGINE
from hookline_server.openapi.operation import Operation, Tag, described


@described(Operation(tag=Tag.MODELS, answer=dict[str, object]))
async def show_tokenizer(request: web.Request) -> web.Response:
    """Returns the configuration of the model's tokenizer, with its chat template."""
    return web.Response(
        body=msgspec.json.encode(request.app[ENGINE].texts.tokenizer_info),
        content_type="application/json",
    )
