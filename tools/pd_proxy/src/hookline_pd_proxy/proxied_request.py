"""A client's request, and the requests for both phases."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

import msgspec

from hookline_server.protocol.transfer_params import FIELD
from hookline_server.request_identity import CHAT_ROUTE

ASKS_FOR_KV: Mapping[str, object] = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
"""Makes a connector keep the prompt's KV for another instance; vLLM's names."""

NOT_OF_PROMPTS = (
    "best_of",
    "echo",
    "logprobs",
    "min_tokens",
    "n",
    "prompt_logprobs",
    "return_token_ids",
    "stream_options",
    "top_logprobs",
)
"""Fields that a response of one token does not need."""

TOKEN_CHARACTERS = 4
"""Estimated number of characters per token of a prompt of token ids."""


class Plain(StrEnum):
    """Why a decode instance computes a prompt itself although nothing has failed."""

    SHORT_PROMPT = "short_prompt"
    SEVERAL_PROMPTS = "several_prompts"
    PROMPT_LOGPROBS = "prompt_logprobs"
    TRUNCATED_PROMPT = "truncated_prompt"
    LONG_PROMPT = "long_prompt"
    NOT_JSON = "not_json"


@dataclass(frozen=True, slots=True)
class ProxiedRequest:
    """A request for a completion.

    Attributes:
        path: Path of the endpoint.
        body: Body as received.
        fields: Raw fields of its JSON object; None if it is something else, which an
            instance reports.
    """

    path: str
    body: bytes
    fields: dict[str, msgspec.Raw] | None

    @classmethod
    def read(cls, path: str, body: bytes) -> "ProxiedRequest":
        """Parses a request; never raises."""
        try:
            fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return cls(path, body, None)
        return cls(path, body, fields)

    def reason_to_be_plain(
        self, min_characters: int, max_model_len: int | None = None
    ) -> Plain | None:
        """Returns why no prefill instance is needed, or None if one is.

        Args:
            min_characters: Length from which on it is.
            max_model_len: Maximum tokens of a sequence of decode instances, which
                refuse what is longer; None if not known.
        """
        if self.fields is None:
            return Plain.NOT_JSON
        prompt = self._value("prompt")
        if not self._is_chat and _is_several(prompt):
            return Plain.SEVERAL_PROMPTS
        if self._has_prompt_logprobs:
            return Plain.PROMPT_LOGPROBS
        if self._depends_on_max_tokens:
            return Plain.TRUNCATED_PROMPT
        if max_model_len and not self._is_chat and _num_ids(prompt) >= max_model_len:
            return Plain.LONG_PROMPT
        length = self._chat_length if self._is_chat else _length(prompt)
        return Plain.SHORT_PROMPT if length < min_characters else None

    def for_prefill(self, transfer_id: str, max_model_len: int | None) -> bytes:
        """Returns the request for the prefill instance, with an output of one token.

        Args:
            transfer_id: Name under which the KV is kept.
            max_model_len: Maximum tokens of a sequence of decode instances: a longer
                prompt is refused before it is computed. None if not known.
        """
        assert self.fields is not None
        asked = {**ASKS_FOR_KV, "transfer_id": transfer_id}
        if max_model_len is not None:
            asked["remote_max_model_len"] = max_model_len
        kept = {
            name: value
            for name, value in self.fields.items()
            if name not in NOT_OF_PROMPTS
        }
        ends: dict[str, object] = {"max_tokens": 1, "stream": False, FIELD: asked}
        if self._is_chat:
            ends["max_completion_tokens"] = 1
        return msgspec.json.encode({**kept, **ends})

    def for_decode(self, transfer_params: msgspec.Raw | None) -> bytes:
        """Returns the request for the decode instance, with the transfer parameters.

        Those of a client are removed: they could make an instance fetch KV from any
        host.
        """
        if self.fields is None or (
            transfer_params is None and FIELD not in self.fields
        ):
            return self.body
        fields = {name: each for name, each in self.fields.items() if name != FIELD}
        if transfer_params is not None:
            fields[FIELD] = transfer_params
        return msgspec.json.encode(fields)

    @property
    def _is_chat(self) -> bool:
        return self.path == CHAT_ROUTE

    @property
    def _has_prompt_logprobs(self) -> bool:
        """Whether the response contains results of the prefill, such as logprobs."""
        if self._value("prompt_logprobs") is not None:
            return True
        return bool(self._value("echo")) and self._value("logprobs") is not None

    @property
    def _depends_on_max_tokens(self) -> bool:
        """Whether two phases, each with its `max_tokens`, would cut differently."""
        most = self._value("truncate_prompt_tokens")
        return str(most).strip().startswith("-")

    @property
    def _chat_length(self) -> int:
        return sum(_message_length(each) for each in _list(self._value("messages")))

    def _value(self, name: str) -> object:
        """Returns a field's value; None if it is missing or malformed."""
        assert self.fields is not None
        try:
            return msgspec.json.decode(self.fields.get(name, b"null"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


def _is_several(prompt: object) -> bool:
    """A list of one text, or of one list of tokens, is one prompt."""
    return (
        isinstance(prompt, list)
        and len(prompt) > 1
        and not all(isinstance(each, int) for each in prompt)
    )


def _num_ids(prompt: object) -> int:
    """Returns how many token ids a prompt has that is given as such; else 0."""
    tokens = _list(prompt)
    if len(tokens) == 1 and isinstance(tokens[0], list):
        tokens = _list(tokens[0])
    return len(tokens) if tokens and isinstance(tokens[0], int) else 0


def _length(prompt: object) -> int:
    if isinstance(prompt, str):
        return len(prompt)
    tokens = _list(prompt)
    if len(tokens) == 1 and not isinstance(tokens[0], int):
        [only] = tokens
        return len(only) if isinstance(only, str) else _token_length(_list(only))
    return _token_length(tokens)


def _token_length(tokens: list[object]) -> int:
    return TOKEN_CHARACTERS * len(tokens)


def _message_length(message: object) -> int:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return len(content)
    parts = (each.get("text") for each in _list(content) if isinstance(each, dict))
    return sum(len(text) for text in parts if isinstance(text, str))


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
