"""A client's request, and what is made of it for either phase."""

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
"""Has a connector keep the prompt's KV for another instance; the names are vLLM's."""

NOT_OF_PROMPTS = (
    "best_of",
    "echo",
    "logprobs",
    "min_tokens",
    "n",
    "prompt_logprobs",
    "stream_options",
    "top_logprobs",
)
"""What an answer's first token needs nothing of, and would only cost."""

TOKEN_CHARACTERS = 4
"""A prompt of token ids is taken to have so many characters a token."""


class Plain(StrEnum):
    """Why a decode instance computes a prompt itself though nothing has failed."""

    SHORT_PROMPT = "short_prompt"
    SEVERAL_PROMPTS = "several_prompts"
    PROMPT_LOGPROBS = "prompt_logprobs"
    NOT_JSON = "not_json"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a completion.

    Attributes:
        path: Of the endpoint.
        body: As it came.
        fields: Of its JSON object, each as it came; None if it is no such object,
            which an instance will say better.
    """

    path: str
    body: bytes
    fields: dict[str, msgspec.Raw] | None

    @classmethod
    def read(cls, path: str, body: bytes) -> "Asked":
        """Never fails."""
        try:
            fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return cls(path, body, None)
        return cls(path, body, fields)

    def reason_to_be_plain(self, min_characters: int) -> Plain | None:
        """Why there is nothing for a prefill instance to do, or None if there is."""
        if self.fields is None:
            return Plain.NOT_JSON
        prompt = self._value("prompt")
        if not self._is_chat and _is_several(prompt):
            return Plain.SEVERAL_PROMPTS
        if self._has_prompt_logprobs:
            return Plain.PROMPT_LOGPROBS
        length = self._chat_length if self._is_chat else _length(prompt)
        return Plain.SHORT_PROMPT if length < min_characters else None

    def for_prefill(self) -> bytes:
        """The same prompt, of whose answer only one token is wanted."""
        assert self.fields is not None
        kept = {
            name: value
            for name, value in self.fields.items()
            if name not in NOT_OF_PROMPTS
        }
        ends: dict[str, object] = {"max_tokens": 1, "stream": False, FIELD: ASKS_FOR_KV}
        if self._is_chat:
            ends["max_completion_tokens"] = 1
        return msgspec.json.encode({**kept, **ends})

    def for_decode(self, transfer_params: msgspec.Raw | None) -> bytes:
        """The request as it came, with what the prefill instance has told.

        What a client says to connectors is left out: it would tell an instance from
        which host to fetch KV.
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
        """Whether it wants what is computed with the prompt, where the answer is."""
        if self._value("prompt_logprobs") is not None:
            return True
        return bool(self._value("echo")) and self._value("logprobs") is not None

    @property
    def _chat_length(self) -> int:
        return sum(_message_length(each) for each in _list(self._value("messages")))

    def _value(self, name: str) -> object:
        """A field's value; None where there is none, or none that can be read."""
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
