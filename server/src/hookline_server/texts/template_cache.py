"""The compiled chat templates of a text process: the model's, and requests' own."""

from collections import OrderedDict
from collections.abc import Mapping

from hookline_server.texts.chat_template import ChatTemplate

MAX_TEMPLATES = 16
"""Templates of requests that are kept; the least recently used one goes first."""


class TemplateCache:
    """Has the model's template, and the last ones of requests."""

    def __init__(self, own: str | None, special_tokens: Mapping[str, object]) -> None:
        """Compiles nothing yet.

        Args:
            own: The model's template; None if it has none.
            special_tokens: Variables of all templates.
        """
        self._special_tokens = special_tokens
        self._own = None if own is None else ChatTemplate(own, special_tokens)
        self._requested: OrderedDict[str, ChatTemplate] = OrderedDict()

    def get(self, requested: str | None) -> ChatTemplate:
        """Returns the template of this source, or the model's own."""
        if requested is None:
            assert self._own is not None  # the front end knows
            return self._own
        found = self._requested.pop(requested, None)
        if found is None:
            found = ChatTemplate(requested, self._special_tokens)
        self._requested[requested] = found
        if len(self._requested) > MAX_TEMPLATES:
            self._requested.popitem(last=False)
        return found
