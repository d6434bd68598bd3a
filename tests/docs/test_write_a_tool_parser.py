"""The parser of docs/tool_parsers.md, built and installed as readers would."""

import json
from collections.abc import Callable, Mapping
from typing import Protocol

import pytest

RUN = """
import json

from hookline_server.replies.reading import ReplyReading
from hookline_server.replies.parsers import choose_parsers
from hookline_server.replies.settings import ReplySettings
from hookline_server.protocol.ignored import Ignored
from hookline_server.protocol.tools import read_tools
from hookline_server.protocol.tool_use import Choice, ToolUse
from hookline_server.answers.reply import WholeReply

tools = read_tools([{"function": {"name": "get_weather"}}], Ignored())
use = ToolUse(tools=tools, choice=Choice.AUTO)
chosen = choose_parsers(ReplySettings(tool_call_parser="lines"))
reader = ReplyReading(use=use, tool=chosen.tool).reader()
reply = WholeReply(is_legacy=False, shows_reasoning=True)
text = 'I CALL you: CALL get_weather {"city": "Paris"} Wait.'
for character in text:
    for parts in reader.read(character, [], lambda token: b""):
        reply.add(parts)
reply.add(reader.finish())
message = reply.message()
[call] = message.tool_calls
print(json.dumps([message.content, call.function.name, call.function.arguments]))
"""


class Installed(Protocol):
    """What `install_example` returns."""

    def run(self, command: str, *arguments: str) -> str: ...


@pytest.mark.exhaustive
@pytest.mark.timeout(180)
def test_parser_works_where_it_is_installed(
    files_of: Callable[[str], dict[str, str]],
    install_example: Callable[[Mapping[str, str]], Installed],
) -> None:
    """It finds the call, and leaves text that only looks like one in the content."""
    files = files_of("tool_parsers.md")
    assert set(files) == {"pyproject.toml", "hookline_line_calls.py"}
    installed = install_example(files)

    listed = json.loads(installed.run("hookline", "plugins", "--json"))
    content, *call = json.loads(installed.run("python", "-c", RUN).splitlines()[-1])

    assert [row["kind"] for row in listed if row["name"] == "lines"] == ["tool_parser"]
    assert call == ["get_weather", '{"city": "Paris"}']
    assert content == "I CALL you:Wait."
