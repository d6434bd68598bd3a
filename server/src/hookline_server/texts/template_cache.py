"""The compiled chat templates of a text process: the model's, and requests' own."""

from collections import OrderedDict
from collections.abc import Mapping

from hookline_server.texts.chat_template import ChatTemplate, TemplateRefusedError

DEFAULT, TOOL_USE = "default", "tool_use"
"""Names of templates that are chosen where a request names none."""

MAX_TEMPLATES = 16
"""Templates of requests that are kept; the least recently used one goes first."""


class TemplateCache:
    """Has the model's templates, and the last ones of requests."""

    def __init__(
        self, own: Mapping[str, str], special_tokens: Mapping[str, object]
    ) -> None:
        """Compiles nothing yet.

        Args:
            own: The model's templates by name.
            special_tokens: Variables of all templates.
        """
        self._special_tokens = special_tokens
        self._own = {
            name: ChatTemplate(source, special_tokens) for name, source in own.items()
        }
        self._requested: OrderedDict[str, ChatTemplate] = OrderedDict()

    def get(self, requested: str | None, *, has_tools: bool = False) -> ChatTemplate:
        """Returns the template of this source or name, or else the model's.

        As in `transformers`, a model may have one for conversations with tools.

        Raises:
            TemplateRefusedError: The model has several, and none is the default.
        """
        name = (TOOL_USE if has_tools else "") if requested is None else requested
        if (own := self._own.get(name)) is not None:
            return own
        if requested is None:
            if (own := self._own.get(DEFAULT)) is not None:
                return own
            names = ", ".join(self._own)
            raise TemplateRefusedError(
                f"the model has several chat templates ({names}) and no default; "
                "--chat-template chooses one"
            )
        found = self._requested.pop(requested, None)
        if found is None:
            found = ChatTemplate(requested, self._special_tokens)
        self._requested[requested] = found
        if len(self._requested) > MAX_TEMPLATES:
            self._requested.popitem(last=False)
        return found
