"""Cases that schemathesis makes of a server's own description of the API."""

import copy
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import requests
import schemathesis.openapi
from hypothesis import strategies as st
from schemathesis import GenerationMode

from hookline_faults.fuzzing.case import Case, request_bytes
from hookline_faults.fuzzing.responses import Response
from hookline_testing.described_api import DescribedApi

_PAGES = "Pages of the stat loggers"
_NOT_SENT = {"connection", "content-length", "host", "user-agent"}
_TIMEOUT = "x-request-timeout"

_SMALL: Mapping[str, Mapping[str, object]] = {
    "max_tokens": {"type": "integer", "minimum": 1, "maximum": 16},
    "max_completion_tokens": {"type": "integer", "minimum": 1, "maximum": 16},
    "max_output_tokens": {"type": "integer", "minimum": 1, "maximum": 16},
    "n": {"type": "integer", "minimum": 1, "maximum": 4},
}
"""Schemas that keep right requests short."""

LARGEST = 2**63 - 1
LAST_TOKEN = 4095
_OBJECTIVES = {"enum": ["ttft=0.5", "tpot=0.05,ttft=0.5", "e2e=10"]}

logging.getLogger("schemathesis").setLevel(logging.ERROR)


def described_cases(api: DescribedApi, model: str) -> st.SearchStrategy[Case]:
    """Returns a strategy of requests to all endpoints, right ones and wrong ones.

    Args:
        api: The description.
        model: The served model, which right requests name.
    """
    narrow = _narrowed(api.document, model)
    found = [
        *_strategies(api, narrow, GenerationMode.POSITIVE),
        *_strategies(api, api.document, GenerationMode.POSITIVE),
        *_strategies(api, api.document, GenerationMode.NEGATIVE),
    ]
    return st.sampled_from(found).flatmap(lambda each: each)


def _strategies(
    api: DescribedApi, document: Mapping[str, Any], mode: GenerationMode
) -> Iterable[st.SearchStrategy[Case]]:
    """Yields strategies for operations; those with bodies have more than others."""
    schema = schemathesis.openapi.from_dict(copy.deepcopy(dict(document)))
    for result in schema.get_all_operations():
        operation = result.ok()
        described = document["paths"][operation.path][operation.method.lower()]
        if _PAGES in described["tags"]:
            continue
        is_plain = "requestBody" not in described
        if (
            is_plain
            and mode is GenerationMode.NEGATIVE
            and not _can_be_wrong(operation)
        ):
            continue
        made = operation.as_strategy(generation_mode=mode)
        for _ in range(1 if is_plain else 12):
            yield made.map(lambda each: _case(api, each))


def _can_be_wrong(operation: Any) -> bool:
    return any(True for _ in operation.iter_parameters())


def _case(api: DescribedApi, given: Any) -> Case:
    path = given.operation.path
    # Its serialization is that of the client that it would use.
    made = requests.Request(**given.as_transport_kwargs("http://fuzz")).prepare()
    headers = [
        (name.encode("latin-1", "replace"), _latin(value))
        for name, value in made.headers.items()
        if name.lower() not in _NOT_SENT and not name.startswith("X-Schemathesis")
    ]
    body = made.body or b""
    if isinstance(body, str):
        body = body.encode()

    def judge(response: Response) -> str | None:
        return api.fault(
            given.method, path, response.status, response.media_type, response.body
        )

    return Case(
        f"{given.method} {path}",
        (request_bytes(given.method, made.path_url.encode(), body, headers),),
        is_request=True,
        may_time_out=any(name.lower() == _TIMEOUT.encode() for name, _ in headers),
        judge=judge,
    )


def _latin(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1", "replace")


def _is_refused(schema: Mapping[str, Any]) -> bool:
    return str(schema.get("description", "")).startswith("Not supported")


def _lower(value: Any) -> None:
    """Makes large integers ids of tokens that the model has."""
    if isinstance(value, dict) and value.get("maximum", 0) == LARGEST:
        value["maximum"] = LAST_TOKEN
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            _lower(each)


def _narrowed(document: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Returns a document of requests that are more likely to be served.

    Their bodies have no unknown fields and none that are refused, name the model, and
    ask for few tokens.
    """
    narrow = copy.deepcopy(dict(document))
    parameters = narrow["components"]["parameters"]
    parameters["Slo"]["schema"] = _OBJECTIVES
    parameters["DataParallelRank"]["schema"]["maximum"] = 0
    for schema in narrow["components"]["schemas"].values():
        _lower(schema)
        properties = schema.get("properties", {})
        for name in [name for name, each in properties.items() if _is_refused(each)]:
            del properties[name]
        if properties:
            schema["additionalProperties"] = False
        if "model" in properties:
            properties["model"] = {"enum": [model]}
        for name in _SMALL.keys() & properties.keys():
            properties[name] = _SMALL[name]
    schemas = narrow["components"]["schemas"]
    message = schemas["ChatMessage"]
    message["properties"]["content"] = {"type": "string"}
    message["required"] = ["role", "content"]
    _narrow_items(schemas["InputItem"], schemas["ResponsesRequest"])
    return narrow


def _narrow_items(item: dict[str, Any], request: dict[str, Any]) -> None:
    """Leaves messages for items, and no response that could be continued."""
    content = {"type": "string"}
    role = item["properties"]["role"]["anyOf"][0]  # not null
    item["properties"] = {"role": role, "content": content}
    item["required"] = ["role", "content"]
    del request["properties"]["previous_response_id"]
    kinds = request["properties"]["input"]["anyOf"]
    kinds = [each for each in kinds if each.get("type") != "null"]
    request["properties"]["input"] = {"anyOf": kinds}
    request["required"] = ["input"]
