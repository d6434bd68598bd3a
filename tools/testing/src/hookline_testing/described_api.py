"""Compares the responses of a server with its own description of the API."""

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator

JSON = "application/json"
EVENTS = "text/event-stream"
DONE = "[DONE]"
_MOST_SHOWN = 300


class DescribedApi:
    """The API as a document of OpenAPI describes it.

    Attributes:
        document: The document.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self._validators: dict[str, Draft202012Validator] = {}

    def fault(
        self, method: str, path: str, status: int, media_type: str, body: bytes
    ) -> str | None:
        """Returns what a response has that the document does not say, or None.

        Args:
            method: The request's method.
            path: The path, as the document has it.
            status: The response's status.
            media_type: Its media type, without parameters.
            body: Its body.
        """
        responses = self.document["paths"][path][method.lower()]["responses"]
        if str(status) not in responses:
            return f"the status {status} is not described"
        content = responses[str(status)]["content"]
        if "*/*" in content:
            return None
        if media_type not in content:
            return f"a {status} of the type {media_type!r} is not described"
        described = content[media_type]
        if media_type == EVENTS:
            return self._fault_of_events(described["x-event-schema"], body.decode())
        if media_type == JSON:
            return self._fault_of(described["schema"], json.loads(body))
        return None

    def _fault_of_events(self, schema: Mapping[str, Any], text: str) -> str | None:
        for data in event_data(text):
            if data != DONE and (fault := self._fault_of(schema, json.loads(data))):
                return fault
        return None

    def _fault_of(self, schema: Mapping[str, Any], value: object) -> str | None:
        key = json.dumps(schema)
        if key not in self._validators:
            whole = {**schema, "components": self._components}
            self._validators[key] = Draft202012Validator(whole)
        for error in self._validators[key].iter_errors(value):
            return f"{error.json_path}: {error.message[:_MOST_SHOWN]}"
        return None

    @cached_property
    def _components(self) -> Mapping[str, Any]:
        return {"schemas": self.document["components"]["schemas"]}


def event_data(text: str) -> Iterator[str]:
    """Yields the data of server-sent events."""
    for line in text.splitlines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")
