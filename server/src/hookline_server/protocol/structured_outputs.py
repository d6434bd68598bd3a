"""Structured outputs: `response_format`, `structured_outputs` and vLLM's `guided_*`."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from hookline.exceptions import RequestError
from hookline.structured_outputs import PARAM, StructuredOutputsParams
from hookline_server.protocol.sampled_request import SampledRequest
from hookline_server.protocol.schema_notes import bounds

Json = str | dict[str, object]

RESPONSE_FORMATS = ("text", "json_object", "json_schema", "structural_tag")


class JsonSchema(msgspec.Struct, frozen=True, kw_only=True):
    """OpenAI's named schema; without a schema, any JSON object matches."""

    name: str | None = None
    description: str | None = None
    schema: Json | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The form of the text; the last three fields are those of structural tags."""

    type: Annotated[str, bounds(enum=RESPONSE_FORMATS)]
    json_schema: JsonSchema | None = None
    format: dict[str, object] | None = None
    structures: list[dict[str, object]] | None = None
    triggers: list[str] | None = None


class StructuredOutputs(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `StructuredOutputsParams`."""

    json: Json | None = None
    json_object: bool | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    structural_tag: Json | None = None
    disable_any_whitespace: bool | None = None
    disable_additional_properties: bool | None = None
    whitespace_pattern: str | None = None


STRUCTURE_FIELDS = (
    *("response_format", "structured_outputs"),
    *("guided_json", "guided_regex", "guided_choice", "guided_grammar"),
)
"""The request's fields that may ask for a structured output."""


class StructuredRequest(SampledRequest, frozen=True, kw_only=True):
    """The fields that ask for a structured output; at most one of them may."""

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: Json | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_whitespace_pattern: str | None = None


def structured_outputs(
    asked: Mapping[str, Mapping[str, Any]],
) -> StructuredOutputsParams:
    """Returns what the text has to match.

    Args:
        asked: The engine's parameters by the field that asks for them, at least one.

    Raises:
        RequestError: Several fields ask for it, or one is malformed or too large.
    """
    field, *others = asked
    if others:
        names = " and ".join(asked)
        raise RequestError(
            f"{names} both ask for a structured output: send one of them",
            param=others[0],
        )
    try:
        return StructuredOutputsParams(**asked[field])
    except RequestError as error:
        if error.param == PARAM:
            error.param = field
        raise


def asking_field(request: StructuredRequest) -> str | None:
    """Returns the request's field that asks for a structured output, if one does."""
    return next(iter(asked_structures(request)), None)


def asked_structures(request: StructuredRequest) -> dict[str, dict[str, Any]]:
    """Returns the engine's parameters by the request's field that asks for them."""
    found: dict[str, dict[str, Any]] = {}
    form = request.response_format
    if form is not None and (given := _of_format(form)) is not None:
        found["response_format"] = given
    if (own := request.structured_outputs) is not None:
        found["structured_outputs"] = _set(msgspec.structs.asdict(own))
    for kind in ("json", "regex", "choice", "grammar"):
        if (value := getattr(request, f"guided_{kind}")) is not None:
            pattern = request.guided_whitespace_pattern
            found[f"guided_{kind}"] = _set({kind: value, "whitespace_pattern": pattern})
    return found


def _of_format(given: ResponseFormat) -> dict[str, Any] | None:
    if given.type == "text":
        return None
    if given.type == "json_object":
        return {"json_object": True}
    if given.type == "json_schema":
        if given.json_schema is None:
            field = "response_format.json_schema"
            raise RequestError(f"{field} is missing", param=field)
        schema = given.json_schema.schema
        return {"json_object": True} if schema is None else {"json": schema}
    if given.type == "structural_tag":
        return {"structural_tag": _set(msgspec.structs.asdict(given))}
    raise RequestError(
        f"response_format.type must be one of {', '.join(RESPONSE_FORMATS)}",
        param="response_format.type",
    )


def _set(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
