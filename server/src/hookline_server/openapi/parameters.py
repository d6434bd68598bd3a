"""Parameters of requests that are not in their bodies: headers, paths and queries."""

import re
from collections.abc import Iterator

import msgspec

from hookline_server.deadlines import HEADER as TIMEOUT_HEADER
from hookline_server.deadlines import LONGEST_SECONDS
from hookline_server.header_options import RANK_HEADER, SESSION_HEADER, SLO_HEADER
from hookline_server.openapi.operation import Operation
from hookline_server.openapi.schemas import Schema

_IN_PATH = re.compile(r"\{(\w+)\}")


def _header(name: str, description: str, **schema: object) -> Schema:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": schema,
    }


HEADERS: dict[str, Schema] = {
    "RequestId": _header(
        "X-Request-Id",
        "The request's id; letters, digits and `._:-`. The response repeats it.",
        type="string",
        maxLength=128,
    ),
    "RequestTimeout": _header(
        TIMEOUT_HEADER,
        "Seconds after which the request ends with the status 504.",
        type="number",
        exclusiveMinimum=0,
        maximum=LONGEST_SECONDS,
    ),
    "Slo": _header(
        SLO_HEADER,
        "The request's objectives in seconds, such as `ttft=0.5,tpot=0.05,e2e=10`.",
        type="string",
        pattern=r"^(ttft|tpot|e2e)=[0-9.]+(,(ttft|tpot|e2e)=[0-9.]+)*$",
    ),
    "SessionId": _header(
        SESSION_HEADER,
        "The session, for events of the KV cache.",
        type="string",
        pattern="^[!-~]{1,256}$",
    ),
    "DataParallelRank": _header(
        RANK_HEADER,
        "Index of the engine that serves the request, of several.",
        type="integer",
        minimum=0,
    ),
    "Traceparent": _header(
        "traceparent",
        "The trace that the request belongs to, as of W3C.",
        type="string",
    ),
}
"""Headers by their names in the document."""


def parameters(path: str, operation: Operation, *, is_timed: bool) -> list[Schema]:
    """Returns the parameters of an operation.

    Args:
        path: Its path, with names of parameters in braces.
        operation: What it takes.
        is_timed: Whether it can have a deadline.
    """
    names = ["RequestId"]
    if is_timed:
        names.append("RequestTimeout")
    if operation.generates:
        names += ["Slo", "SessionId", "DataParallelRank", "Traceparent"]
    found: list[Schema] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
        for name in _IN_PATH.findall(path)
    ]
    if operation.query is not None:
        found += _query(operation.query)
    return found + [{"$ref": f"#/components/parameters/{name}"} for name in names]


def _query(kind: type) -> Iterator[Schema]:
    _, known = msgspec.json.schema_components([kind], ref_template="{name}")
    for name, each in known[kind.__name__]["properties"].items():
        schema = {**known.get(each.pop("$ref", ""), {}), **each}
        yield {"name": name, "in": "query", "required": False, "schema": schema}
