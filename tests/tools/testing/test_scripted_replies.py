"""What the scripted model says to a conversation, as the template renders it."""

import jinja2
import pytest

from hookline_testing.scripted_replies import TEMPLATE, reply_to

TOOLS = [{"type": "function", "function": {"name": "get_weather"}}]


def call(city: str, name: str = "get_weather") -> str:
    function = f'{{"name": "{name}", "arguments": {{"city": "{city}"}}}}'
    return f"<tool_call>\n{function}\n</tool_call>"


def rendered(*turns: tuple[str, str], tools: object = None) -> str:
    messages = [{"role": role, "content": content} for role, content in turns]
    template = jinja2.Template(TEMPLATE)
    given = {"messages": messages, "tools": tools, "add_generation_prompt": True}
    return str(template.render(given))


@pytest.mark.parametrize(
    ("turns", "reply"),
    [
        ([("user", "The weather in Oslo?")], call("Oslo")),
        (
            [("user", "weather in Oslo and Rome")],
            "\n".join(map(call, ("Oslo", "Rome"))),
        ),
        (
            [("user", "weather in Oslo"), ("tool", "sun"), ("tool", "rain")],
            "The tools say: sun, rain.",
        ),
        ([("user", "I am Ada"), ("user", "what came first?")], "I am Ada"),
        ([("user", "Hello")], None),
    ],
)
def test_replies_follow_the_conversation(
    turns: list[tuple[str, str]], reply: str | None
) -> None:
    """
    Calls, results and what was said first; None leaves the reply to the model.
    """
    assert reply_to(rendered(*turns, tools=TOOLS)) == reply


def test_a_tool_of_a_namespace_is_called_by_its_whole_name() -> None:
    """
    The name for the model has the namespace; a strict grammar allows no other.
    """
    tools = [{"type": "function", "function": {"name": "sky__get_weather"}}]

    reply = reply_to(rendered(("user", "The weather in Oslo?"), tools=tools))

    assert reply == call("Oslo", "sky__get_weather")


def test_without_tools_nothing_is_called() -> None:
    """
    The question alone makes no call.
    """
    assert reply_to(rendered(("user", "The weather in Oslo?"))) is None
