"""Stored responses: reading them, their input items, and deleting them."""

from enum import Enum
from typing import Annotated

import msgspec
from aiohttp import web

from hookline.exceptions import RequestError
from hookline_server.api_error import ApiError
from hookline_server.context import RESPONSE_STORE
from hookline_server.dialects import RESPONSES_PATH
from hookline_server.handlers.common import MAX_SHOWN, json_response
from hookline_server.handlers.response_history import items_of, own_input, owner_of
from hookline_server.openapi.operation import Operation, Tag, described
from hookline_server.protocol.responses_items import ItemList, shown_items
from hookline_server.protocol.responses_object import DeletedResponse, ResponseObject
from hookline_server.protocol.schema_notes import bounds
from hookline_server.protocol.wire import Name, convert_query
from hookline_server.response_store import StoredResponse

MOST_ITEMS = 100
"""Maximum items of a page, the same as OpenAI's."""


class Order(Enum):
    """Whether the first or the last items come first."""

    ASC = "asc"
    DESC = "desc"


class ItemsQuery(msgspec.Struct, frozen=True):
    """Which items a page has."""

    after: Name | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_ITEMS)] = 20
    order: Order = Order.DESC


class ResponseQuery(msgspec.Struct, frozen=True):
    """How a stored response is read; it cannot be streamed again."""

    stream: Annotated[bool, bounds(const=False)] = False


@described(
    Operation(
        tag=Tag.GENERATION,
        answer=ResponseObject,
        query=ResponseQuery,
        errors=(400, 404),
    )
)
async def show_response(request: web.Request) -> web.Response:
    """Returns a stored response."""
    query = convert_query(request.query, ResponseQuery)
    if query.stream:
        raise RequestError(
            "stream: a stored response cannot be streamed again", param="stream"
        )
    entry, *_ = await _chain(request)
    return web.Response(body=entry.response, content_type="application/json")


@described(Operation(tag=Tag.GENERATION, answer=DeletedResponse, errors=(404,)))
async def delete_response(request: web.Request) -> web.Response:
    """Deletes a stored response, so that no request can continue it."""
    entry, *_ = await _chain(request)
    await request.app[RESPONSE_STORE].delete(entry.owner, entry.id)
    return json_response(DeletedResponse(id=entry.id))


@described(
    Operation(tag=Tag.GENERATION, answer=ItemList, query=ItemsQuery, errors=(400, 404))
)
async def list_input_items(request: web.Request) -> web.Response:
    """Lists the input items of a stored response.

    They include those of the responses that it continues, while these are stored.
    """
    query = convert_query(request.query, ItemsQuery)
    last, *earlier = await _chain(request)
    items = [*await items_of(earlier), *own_input(last)]
    return json_response(_page(shown_items(items), query))


@described(Operation(tag=Tag.GENERATION, answer=ResponseObject, errors=(400, 404)))
async def cancel_response(request: web.Request) -> web.Response:
    """Refuses to cancel: only background responses could be cancelled.

    A client cancels its request by closing the connection.
    """
    await _chain(request)
    raise ApiError(
        400,
        "Cannot cancel a synchronous response: close the connection of its request.",
        code="invalid_request",
    )


STORED_RESPONSE_ROUTES = (
    web.get(f"{RESPONSES_PATH}/{{response_id}}", show_response),
    web.delete(f"{RESPONSES_PATH}/{{response_id}}", delete_response),
    web.get(f"{RESPONSES_PATH}/{{response_id}}/input_items", list_input_items),
    web.post(f"{RESPONSES_PATH}/{{response_id}}/cancel", cancel_response),
)


async def _chain(request: web.Request) -> list[StoredResponse]:
    """Returns the response that the path names, and those that it continues."""
    response_id = request.match_info["response_id"]
    store = request.app[RESPONSE_STORE]
    chain = await store.chain(owner_of(request), response_id)
    if not chain:
        raise ApiError(
            404,
            f"Response with id {response_id[:MAX_SHOWN]!r} not found.",
            code="response_not_found",
            param="response_id",
        )
    return chain


def _page(items: list[dict[str, object]], query: ItemsQuery) -> ItemList:
    if query.order is Order.DESC:
        items.reverse()
    ids = [str(item["id"]) for item in items]
    start = 0
    if query.after is not None:
        if query.after not in ids:
            message = f"after: there is no item with the id {query.after!r}"
            raise RequestError(message, param="after")
        start = ids.index(query.after) + 1
    end = start + query.limit
    return ItemList(
        data=items[start:end],
        first_id=next(iter(ids[start:end]), None),
        last_id=next(reversed(ids[start:end]), None),
        has_more=end < len(items),
    )
