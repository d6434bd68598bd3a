"""The input of a response: that of its request, and what the server has stored."""

import asyncio
from collections.abc import Sequence

import msgspec
from aiohttp import web
from msgspec import UNSET

from hookline.exceptions import RequestError
from hookline.request_limits import HISTORY_BYTES, MESSAGES
from hookline_server.api_error import ApiError
from hookline_server.context import RESPONSE_STORE
from hookline_server.ignored import ignored_of
from hookline_server.kept_responses import KeptResponses
from hookline_server.protocol.responses_conversation import check_item
from hookline_server.protocol.responses_items import (
    KINDS,
    REFERENCE,
    InputItem,
    Placed,
    kind_of,
    shown_items,
)
from hookline_server.protocol.responses_object import (
    NO_LOGPROBS,
    OutputItem,
    OutputMessage,
    ReasoningItem,
    ResponseObject,
)
from hookline_server.protocol.responses_request import ResponsesRequest
from hookline_server.protocol.wire import convert
from hookline_server.request_identity import IDENTITY
from hookline_server.response_store import Owner, StoredResponse

_PREVIOUS = "previous_response_id"
_COMPACTION = "compaction_trigger"
_decoder = msgspec.json.Decoder(list[InputItem])


def owner_of(request: web.Request) -> Owner:
    """Returns who may read the responses of a request: its key, for its tenant."""
    identity = request[IDENTITY]
    key = identity.key
    return ("" if key is None else key.id, identity.tenant or "")


async def read_history(request: web.Request, body: ResponsesRequest) -> list[Placed]:
    """Returns the items of the responses that a request continues.

    Raises:
        ApiError: One is unknown, or no longer stored.
        LimitError: They are too large.
    """
    response_id = body.previous_response_id
    if response_id is None:
        return []
    store, owner = request.app[RESPONSE_STORE], owner_of(request)
    chain = await store.chain(owner, response_id)
    if not chain or chain[-1].previous_id is not None:
        raise _lost(response_id, store)
    HISTORY_BYTES.check(sum(each.num_item_bytes for each in chain), param=_PREVIOUS)
    return [(_PREVIOUS, item) for item in await items_of(chain)]


async def items_of(chain: Sequence[StoredResponse]) -> list[InputItem]:
    """Returns the items of all responses in a chain, oldest first."""
    items: list[InputItem] = []
    for entry in reversed(chain):
        items += own_input(entry)
        items += _decoder.decode(entry.output)
        await asyncio.sleep(0)  # others get their turns
    return items


def own_input(entry: StoredResponse) -> list[InputItem]:
    """Returns the input items of the request that led to a response."""
    return _decoder.decode(entry.input)


async def read_input(request: web.Request, body: ResponsesRequest) -> list[Placed]:
    """Returns a request's own items, with references resolved.

    Items of types that only another server could read are left out.

    Raises:
        ApiError: A reference names an item that is not stored.
        LimitError: They are too many, or too large.
        RequestError: One is wrong, or asks for what the server cannot do.
    """
    if body.input is None:
        return []
    if isinstance(body.input, str):
        item = InputItem(type="message", role="user", content=body.input)
        return [("input", item)]
    MESSAGES.check(len(body.input), param="input")
    references = _References(request.app[RESPONSE_STORE], owner_of(request))
    ignored = ignored_of(request)
    placed = []
    for index, given in enumerate(body.input):
        place, kind = f"input[{index}]", kind_of(given.get("type"), given.get("role"))
        if kind == _COMPACTION:
            message = f"{place}: this server cannot compact a conversation"
            raise RequestError(message, param=place)
        if kind not in KINDS and kind != REFERENCE:
            ignored.add("item", kind)
            continue
        item = convert(given, InputItem, place)
        if kind == REFERENCE:
            item = await references.resolved(item, place)
        check_item(item, place)
        placed.append((place, item))
    return placed


def stored_response(
    owner: Owner, payer: str, response: ResponseObject, items: Sequence[InputItem]
) -> StoredResponse:
    """Returns the stored form of a response.

    Args:
        owner: The owner of the response.
        payer: Who pays for it.
        response: The response.
        items: The input items of its request.
    """
    given = shown_items(items)
    output = [_bare(item) for item in response.output]
    ids = [str(each["id"]) for each in given] + [each.id for each in output]
    return StoredResponse(
        id=response.id,
        owner=owner,
        payer=payer,
        previous_id=response.previous_response_id,
        response=msgspec.json.encode(response),
        input=msgspec.json.encode(given),
        output=msgspec.json.encode(output),
        item_ids=tuple(ids),
    )


class _References:
    """Resolves the item references of one request."""

    def __init__(self, store: KeptResponses, owner: Owner) -> None:
        self._store = store
        self._owner = owner
        self._known: dict[str, InputItem] = {}
        self._bytes = 0

    async def resolved(self, item: InputItem, place: str) -> InputItem:
        if item.id is None:
            raise RequestError(f"{place}.type is missing", param=f"{place}.type")
        if item.id not in self._known:
            await self._read(item.id, place)
        return self._known[item.id]

    async def _read(self, item_id: str, place: str) -> None:
        """Reads all items of the response that contains this one."""
        entry = await self._store.holder(self._owner, item_id)
        if entry is None:
            raise ApiError(
                404,
                f"Item with id {item_id!r} not found. Items of responses are kept "
                "only with store, and for a limited time: send the item itself.",
                code="item_not_found",
                param=place,
            )
        self._bytes += entry.num_item_bytes
        HISTORY_BYTES.check(self._bytes, param="input")
        items = await items_of([entry])
        self._known |= {item.id: item for item in items if item.id is not None}


def _bare(item: OutputItem) -> OutputItem:
    """Returns an item without what only its client needs."""
    replace = msgspec.structs.replace
    if isinstance(item, ReasoningItem):
        return replace(item, encrypted_content=UNSET)
    if not isinstance(item, OutputMessage):
        return item
    content = [replace(part, logprobs=NO_LOGPROBS) for part in item.content]
    return replace(item, content=content)


def _lost(response_id: str, store: KeptResponses) -> ApiError:
    hint = "" if store.is_enabled else " This server keeps none: send the whole input."
    return ApiError(
        400,
        f"Previous response with id {response_id!r} not found.{hint}",
        code="previous_response_not_found",
        param=_PREVIOUS,
    )
