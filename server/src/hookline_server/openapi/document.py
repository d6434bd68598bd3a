"""The OpenAPI 3.1 document that describes a server's routes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import getdoc

from aiohttp import web

from hookline import __version__
from hookline_server.auth.key_ring import KEY_RING
from hookline_server.auth.route_scopes import ROUTE_SCOPES
from hookline_server.deadlines import TIMED_PATHS
from hookline_server.dialects import is_anthropic
from hookline_server.openapi.errors import MEANINGS, errors_of
from hookline_server.openapi.operation import Function, Operation, Tag, operation_of
from hookline_server.openapi.parameters import HEADERS, parameters
from hookline_server.openapi.schemas import Schema, Schemas
from hookline_server.protocol.anthropic_response import AnthropicError
from hookline_server.protocol.errors import ErrorBody
from hookline_server.respelling import ROOT_PATH

JSON = "application/json"
EVENTS = "text/event-stream"

SECURITY_SCHEMES: Schema = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


@dataclass(frozen=True, slots=True)
class DescribedRoute:
    """A route and what its handler declares."""

    method: str
    path: str
    handler: Function
    operation: Operation


def described_routes(app: web.Application) -> Iterator[DescribedRoute]:
    """Yields the routes of an application that its document describes.

    Raises:
        KeyError: A handler declares nothing.
    """
    for route in app.router.routes():
        # GET includes HEAD.
        if route.resource is None or route.method == "HEAD":
            continue
        operation = operation_of(route.handler)
        if operation is not None:
            path = route.resource.canonical
            yield DescribedRoute(route.method, path, route.handler, operation)


def openapi_document(app: web.Application) -> Schema:
    """Returns the document of an application whose routes are complete."""
    routes = list(described_routes(app))
    schemas = _schemas(each.operation for each in routes)
    order = list(Tag)
    routes.sort(key=lambda each: order.index(each.operation.tag))
    tags = dict.fromkeys(each.operation.tag for each in routes)
    components: Schema = {
        "schemas": schemas.components,
        "parameters": HEADERS,
    }
    if not app[KEY_RING].is_open:
        components["securitySchemes"] = SECURITY_SCHEMES
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hookline",
            "version": __version__,
            "description": (
                "The APIs of OpenAI and Anthropic, served by Hookline. Numbers and "
                "booleans in bodies may also be strings; unknown fields are ignored."
            ),
        },
        **({"servers": [{"url": root}]} if (root := app.get(ROOT_PATH)) else {}),
        "tags": [{"name": tag.value} for tag in tags],
        "paths": _paths(app, routes, schemas),
        "components": components,
    }


def _schemas(operations: Iterable[Operation]) -> Schemas:
    requests: dict[type, None] = {}
    answers: dict[object, None] = dict.fromkeys((ErrorBody, AnthropicError))
    for each in operations:
        requests |= dict.fromkeys(each.bodies)
        answers |= dict.fromkeys((*each.answers, *each.events))
    return Schemas(requests, answers)


def _paths(
    app: web.Application, routes: Sequence[DescribedRoute], schemas: Schemas
) -> dict[str, Schema]:
    paths: dict[str, Schema] = {}
    ids: set[str] = set()
    for route in routes:
        made = _operation(app, route, schemas)
        if made["operationId"] in ids:  # one handler may have several paths
            made["operationId"] = _path_id(route)
        ids.add(str(made["operationId"]))
        paths.setdefault(route.path, {})[route.method.lower()] = made
    return paths


def _operation(app: web.Application, route: DescribedRoute, schemas: Schemas) -> Schema:
    operation, path = route.operation, route.path
    is_timed = path.startswith(TIMED_PATHS)
    scope = app[ROUTE_SCOPES].of_path(path)
    is_guarded = scope is not None and app[KEY_RING].guards(scope)
    summary, _, rest = (getdoc(route.handler) or operation.tag.value).partition("\n")
    made: Schema = {
        "operationId": _operation_id(route),
        "summary": summary,
        "tags": [operation.tag.value],
        "parameters": parameters(path, operation, is_timed=is_timed),
        "responses": {
            "200": _answer(operation, schemas),
            **{
                str(status): _error(path, status)
                for status in errors_of(
                    operation, is_timed=is_timed, is_guarded=is_guarded
                )
            },
        },
    }
    if rest.strip():
        made["description"] = rest.strip()
    if operation.body is not None:
        schema = _one_of([schemas.of(kind) for kind in operation.bodies])
        made["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    if is_guarded and scope is not None:
        made["security"] = [{name: [scope.value]} for name in SECURITY_SCHEMES]
    return made


def _answer(operation: Operation, schemas: Schemas) -> Schema:
    if not operation.answers:
        return {"description": "Success.", "content": {operation.media_type: {}}}
    answer = _one_of([schemas.of(kind) for kind in operation.answers])
    content: Schema = {JSON: {"schema": answer}}
    description = "Success."
    if operation.events:
        end = "; the last is `[DONE]`" if operation.ends_with_done else ""
        description = f"Success; with `stream`, server-sent events{end}."
        events = _one_of([schemas.of(kind) for kind in operation.events])
        content[EVENTS] = {"schema": {"type": "string"}, "x-event-schema": events}
    return {"description": description, "content": content}


def _error(path: str, status: int) -> Schema:
    kind = AnthropicError if is_anthropic(path) else ErrorBody
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"description": MEANINGS[status], "content": {JSON: {"schema": schema}}}


def _one_of(schemas: list[Schema]) -> Schema:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _operation_id(route: DescribedRoute) -> str:
    is_page = route.operation.tag is Tag.PAGES  # all have one handler
    return _path_id(route) if is_page else route.handler.__name__


def _path_id(route: DescribedRoute) -> str:
    words = "".join(each if each.isalnum() else "_" for each in route.path)
    return f"{route.method.lower()}{words.rstrip('_')}"
