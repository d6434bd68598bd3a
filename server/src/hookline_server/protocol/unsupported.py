"""Fields for unsupported features: requests with them are refused, never ignored."""

from collections.abc import Mapping

import msgspec

from hookline.exceptions import RequestError

HARMLESS: Mapping[str, tuple[object, ...]] = {
    "modalities": (["text"],),
}
"""Values that request no more than the default behaviour."""

WHAT: Mapping[str, str] = {
    "audio": "audio output",
    "modalities": "non-text output",
    "prompt_embeds": "prompt embeddings",
    "suffix": "completion before a suffix",
    "use_beam_search": "beam search",
    "web_search_options": "web search",
}


def refuse(request: msgspec.Struct, what: Mapping[str, str] = WHAT) -> None:
    """Raises `RequestError` if a field requests an unsupported feature.

    Args:
        request: The request.
        what: Unsupported features, by the names of the fields that ask for them.
    """
    for name in request.__struct_fields__:
        if name in what and _asks(request, name):
            raise RequestError(f"{name}: {what[name]} is not supported", param=name)


def _asks(request: msgspec.Struct, name: str) -> bool:
    value = getattr(request, name)
    return bool(value) and value not in HARMLESS.get(name, ())
