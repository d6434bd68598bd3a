"""How responses name tokens: by their text, or by their ids."""

from hookline_server.engine import ServingEngine

_LEAST_LOGPROB = -9999.0
"""In place of −∞, which JSON does not have, as with OpenAI."""


def shown_logprob(logprob: float) -> float:
    """Returns what clients are shown of a log-probability."""
    return max(logprob, _LEAST_LOGPROB)


class TokenNames:
    """The tokens' names in one response."""

    def __init__(self, engine: ServingEngine, *, has_ids: bool) -> None:
        """Names tokens for one response.

        Args:
            engine: Knows the tokens' texts.
            has_ids: Whether the client requested `return_tokens_as_token_ids`, as
                different tokens may have the same text.
        """
        self._engine = engine
        self._has_ids = has_ids

    def name(self, token_id: int) -> str:
        return f"token_id:{token_id}" if self._has_ids else self.text(token_id)

    def text(self, token_id: int) -> str:
        return self._engine.texts.token_text(token_id)

    def bytes(self, token_id: int) -> bytes:
        return self._engine.texts.token_bytes(token_id)
