"""Fields that ask for something the engine cannot do: refused, never ignored."""

from collections.abc import Mapping

import msgspec

from hookline.exceptions import RequestError

HARMLESS: Mapping[str, tuple[object, ...]] = {
    "response_format": ({"type": "text"},),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
}
"""Values that ask for nothing more than what is done anyway."""

WHAT: Mapping[str, str] = {
    "audio": "audio output",
    "chat_template": "a chat template of the request's own",
    "chat_template_kwargs": "arguments for the chat template",
    "continue_final_message": "continuing the last message",
    "documents": "documents for the chat template",
    "function_call": "calling functions",
    "functions": "calling functions",
    "guided_choice": "structured output",
    "guided_grammar": "structured output",
    "guided_json": "structured output",
    "guided_regex": "structured output",
    "modalities": "output other than text",
    "prompt_embeds": "prompts of embeddings",
    "prompt_logprobs": "prompt_logprobs (echo with logprobs tells the same)",
    "response_format": "structured output",
    "structured_outputs": "structured output",
    "suffix": "inserting text before a suffix",
    "tool_choice": "calling tools",
    "tools": "calling tools",
    "web_search_options": "searching the web",
}


def refuse(request: msgspec.Struct) -> None:
    """Raises `RequestError` for the first field that asks for too much."""
    for name in request.__struct_fields__:
        if name in WHAT and _asks(request, name):
            raise RequestError(f"{name}: {WHAT[name]} is not supported", param=name)


def _asks(request: msgspec.Struct, name: str) -> bool:
    value = getattr(request, name)
    if not value or value in HARMLESS.get(name, ()):
        return False
    # Tools that the model is told not to call are as good as none.
    return name != "tools" or getattr(request, "tool_choice", None) != "none"
