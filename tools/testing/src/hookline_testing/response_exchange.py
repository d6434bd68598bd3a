"""One request of `/v1/responses` on a scripted engine, and all that became of it."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from hookline.request import FinishReason
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

_MAX_MODEL_LEN = 65536


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request's prompt and answer.

    Attributes:
        status: The answer's status.
        answer: The response object; that of the last event of a stream.
        events: The events of a stream.
        ignored: What the response says was left out.
        engine: The engine that got the request, or did not.
    """

    status: int
    answer: Any
    events: list[Any]
    ignored: list[str]
    engine: FakeEngine

    @property
    def output(self) -> list[Any]:
        """The items of the answer."""
        items: list[Any] = self.answer["output"]
        return items

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages that the chat template got."""
        return self.engine.chats[0]

    @property
    def functions(self) -> dict[str, Any]:
        """The functions that the chat template got, by name."""
        tools: Any = self.engine.variables[0].get("tools", [])
        return {each["function"]["name"]: each["function"] for each in tools}

    @property
    def tools(self) -> list[str]:
        """The names of these functions."""
        return [*self.functions]

    @property
    def forced(self) -> str | None:
        """The function that the text has to call in the markup of `hermes`, or None."""
        grammar = self.engine.streams[0].params.structured_outputs
        if grammar is None:
            return None
        tags = json.loads(str(grammar.structural_tag))["format"]["tags"]
        [name] = {
            each for each in self.tools for tag in tags if f'"{each}"' in tag["begin"]
        }
        return name


def tool_call(name: str, arguments: object) -> str:
    """Returns a call as the parser `hermes` finds it."""
    call = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>{call}</tool_call>"


async def exchanged(
    fields: dict[str, Any], *script: str, settings: ServerSettings
) -> Exchange:
    """Sends a request; `Hi` is its input unless the fields have another.

    Args:
        fields: The request's fields.
        *script: What the model writes, one piece per step.
        settings: The server's settings.

    Raises:
        AssertionError: The events of a stream are not well numbered or named.
    """
    engine = FakeEngine(script, finish_reason=FinishReason.STOP)
    engine.facts = dataclasses.replace(
        engine.facts,
        model=dataclasses.replace(engine.facts.model, max_model_len=_MAX_MODEL_LEN),
        structured_outputs="fake",
    )
    async with client_of(engine, settings) as client:
        response = await client.post("/v1/responses", json={"input": "Hi", **fields})
        text = await response.text()
        header = response.headers.get("X-Hookline-Ignored", "")
    is_streamed = response.content_type == "text/event-stream"
    events = _events(text) if is_streamed else []
    answer = events[-1]["response"] if is_streamed else json.loads(text)
    ignored = header.split(", ") if header else []
    return Exchange(response.status, answer, events, ignored, engine)


def _events(text: str) -> list[Any]:
    events = []
    for number, event in enumerate(text.removesuffix("\n\n").split("\n\n")):
        name, data = event.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
        assert events[-1]["sequence_number"] == number
    return events
