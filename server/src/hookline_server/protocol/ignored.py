"""What the server cannot use of a request, and leaves out.

Clients send more than an API documents. Only what changes the meaning of a request is
refused; the rest is noted here, to be counted and named in the response.
"""

import re
from collections.abc import Callable, Mapping
from typing import Literal

Element = Literal["block", "part", "item", "tool", "field", "call", "text", "limit"]
"""Where something was left out: a block, a content part, an item, a tool, a field of
the body, a past call, a line of text, or a number above a limit."""

_RESULTS = tuple(
    f"{tool}_tool_result"
    for tool in (
        "bash_code_execution",
        "code_execution",
        "mcp",
        "text_editor_code_execution",
        "tool_search",
        "web_fetch",
        "web_search",
    )
)
_REASONING = ("reasoning", "redacted_thinking", "thinking")
_MEDIA = ("audio", "document", "file", "image", "image_url", "input_audio", "video")

KNOWN: Mapping[Element, frozenset[str]] = {
    "block": frozenset(
        {
            *(*_RESULTS, *_REASONING, *_MEDIA),
            *("compaction", "container_upload", "fallback", "mcp_tool_use"),
            *("server_tool_use", "tool_reference"),
        }
    ),
    "part": frozenset(
        {
            *(*_REASONING, *_MEDIA),
            *("encrypted_content", "input_file", "input_image", "input_video"),
            *("tool_result", "tool_use"),
        }
    ),
    "item": frozenset(
        {
            *("code_interpreter_call", "compaction", "compaction_summary"),
            *("computer_call", "computer_call_output", "configuration_update"),
            *("context_compaction", "file_search_call", "ghost_snapshot"),
            *("image_generation_call", "mcp_approval_request"),
            *("mcp_approval_response", "mcp_call", "mcp_list_tools", "program"),
            *("program_output", "reasoning", "web_search_call"),
        }
    ),
    "tool": frozenset(
        {
            *("advisor", "apply_patch", "bash", "code_execution", "code_interpreter"),
            *("computer", "computer_use", "computer_use_preview", "custom"),
            *("file_search", "programmatic_tool_calling"),
            *("image_generation", "local_shell", "mcp", "mcp_toolset", "memory"),
            *("namespace", "shell", "text_editor", "tool_search"),
            *("tool_search_tool_bm25", "tool_search_tool_regex", "web_fetch"),
            *("web_search", "web_search_preview"),
        }
    ),
    "field": frozenset(
        {"container", "include", "mcp_servers", "thinking", "tool_choice"}
    ),
    "call": frozenset({"arguments"}),
    "text": frozenset({"billing_header"}),
    "limit": frozenset({"max_tokens"}),
}
"""Names that are counted separately; others count as `other`."""

UNSEEN = "[{}: left out, as this model reads only text]"
"""What a model reads in place of an image or the like, where it was answered already or
a tool has returned it: the conversation can go on. What a user asks now is refused with
an image, as the question may be about it.
"""

MOST_NAMED = 16
"""Maximum number of kinds that a response names."""

_UNUSUAL = re.compile(r"[^A-Za-z0-9_.-]")
_DATE = re.compile(r"_(?:\d{8}|\d{4}_\d{2}_\d{2})$")
_MAX_LENGTH = 64


def _uncounted(_: str) -> None:
    """Takes the place of an application's counts."""


class Ignored:
    """What is left out of one request."""

    def __init__(self, count: Callable[[str], None] = _uncounted) -> None:
        """Tells `count` each kind."""
        self._count = count
        self._named: dict[str, None] = {}

    @property
    def kinds(self) -> tuple[str, ...]:
        """What was left out, without repeats, in the order in which it was found."""
        return tuple(self._named)

    def add(self, element: Element, name: str) -> None:
        """Notes that something was left out.

        Args:
            element: What it is a part of.
            name: Its type, as the client named it; a date at the end is no part of it.
        """
        name = _DATE.sub("", name[:_MAX_LENGTH])
        self._count(f"{element}.{name if name in KNOWN[element] else 'other'}")
        self.name(element, name)

    def name(self, element: Element, name: str) -> None:
        """Names something that is counted elsewhere."""
        if len(self._named) < MOST_NAMED:
            clean = _UNUSUAL.sub("_", name[:_MAX_LENGTH]) or "_"
            self._named[f"{element}.{clean}"] = None
