"""A model's tokenizer, with its chat template."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from jinja2 import TemplateError
from tokenizers import decoders
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from hookline.exceptions import (
    ChatTemplateError,
    ConfigError,
    ModelLoadError,
    RequestError,
)
from hookline.frozen import EMPTY
from hookline_processes.model_files import tokenizer_files_refusal
from hookline_processes.tokenizer_texts import (
    byte_level_alphabet,
    template_source,
    tokenizer_lack,
)

ChatMessage = Mapping[str, object]
_DEFAULT = "default"


class Tokenizer:
    """Wraps a fast tokenizer of `transformers`.

    Attributes:
        is_byte_level: Whether each token stands for fixed bytes, so that tokens can be
            decoded one by one.
        templates: Sources of the chat templates by name; most models have only the
            default one.
        special_ids: The ids of special tokens.
        special_texts: Their texts.
    """

    def __init__(self, inner: PreTrainedTokenizerBase) -> None:
        self._inner = inner
        self.special_ids = frozenset(inner.all_special_ids)
        self._added = {
            token_id: token.content
            for token_id, token in inner.added_tokens_decoder.items()
        }
        self.special_texts = frozenset(
            token.content
            for token_id, token in inner.added_tokens_decoder.items()
            if token.special or token_id in self.special_ids
        )
        self._alphabet = byte_level_alphabet()
        self._bytes: dict[int, bytes] = {}  # at most one entry per token
        self.is_byte_level = _is_byte_level(inner)
        own = inner.chat_template
        named = own if isinstance(own, dict) else {_DEFAULT: own} if own else {}
        self.templates: Mapping[str, str] = named

    @classmethod
    def load(cls, folder: Path, mode: str = "auto") -> "Tokenizer":
        """Loads a tokenizer from a folder, by a mode that `--tokenizer-mode` takes.

        Raises:
            ModelLoadError: The folder has no tokenizer, or it is refused.
        """
        if reason := tokenizer_files_refusal(folder) or tokenizer_lack(folder):
            raise ModelLoadError(str(folder), reason)
        try:
            inner = _read(folder, mode)
        except (OSError, ValueError, KeyError, TypeError) as error:
            (line, *_) = [*str(error).strip().splitlines(), ""]
            reason = f"its tokenizer cannot be read: {line or type(error).__name__}"
            raise ModelLoadError(str(folder), reason) from error
        if not inner.is_fast:
            raise ModelLoadError(str(folder), "its tokenizer is not a fast tokenizer")
        return cls(inner)

    @property
    def inner(self) -> PreTrainedTokenizerBase:
        """The wrapped `transformers` tokenizer."""
        return self._inner

    @property
    def has_chat_template(self) -> bool:
        return bool(self.templates)

    def use_template(self, given: str) -> None:
        """Has one template render all conversations.

        Args:
            given: Name of one of the model's, a file, or a template itself.

        Raises:
            ConfigError: It is none of these.
        """
        try:
            source = template_source(given, self.templates)
        except ValueError as error:
            raise ConfigError("chat-template", str(error)) from error
        self._inner.chat_template = source
        self.templates = {_DEFAULT: source}

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        ids = self._inner.encode(
            text, add_special_tokens=add_special_tokens, verbose=False
        )
        return list(ids)

    def decode(
        self, token_ids: Sequence[int], *, skip_special_tokens: bool = False
    ) -> str:
        if self.is_byte_level:
            kept = [
                token_id
                for token_id in token_ids
                if not (skip_special_tokens and self.is_special(token_id))
            ]
            return b"".join(map(self.token_bytes, kept)).decode("utf-8", "replace")
        return str(
            self._inner.decode(
                list(token_ids),
                skip_special_tokens=skip_special_tokens,
                clean_up_tokenization_spaces=False,
            )
        )

    def render_chat(
        self,
        messages: Sequence[ChatMessage],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        chat_template: str | None = None,
        variables: Mapping[str, object] = EMPTY,
    ) -> list[int]:
        """Applies the model's chat template and returns the token ids.

        `variables` are further ones of the template, such as `tools`. With
        `continue_final_message` the prompt ends with the text of the last message.
        `chat_template` takes the place of the model's template.

        Raises:
            RequestError: The model has no chat template, or it rejects the messages.
        """
        if chat_template is None and not self.has_chat_template:
            raise RequestError("this model has no chat template", param="messages")
        try:
            text = self._inner.apply_chat_template(
                cast("list[dict[str, str]]", [dict(message) for message in messages]),
                **cast("dict[str, Any]", dict(variables)),
                chat_template=chat_template,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=continue_final_message,
                tokenize=False,
            )
        except (TemplateError, TypeError, ValueError, KeyError) as error:
            raise ChatTemplateError(str(error)) from error
        return self.encode(str(text), add_special_tokens=False)

    def is_special(self, token_id: int) -> bool:
        return token_id in self.special_ids

    def token_text(self, token_id: int) -> str:
        """Returns a single token as text; invalid UTF-8 becomes U+FFFD."""
        if self.is_byte_level:
            return self.token_bytes(token_id).decode("utf-8", "replace")
        return self.decode([token_id])

    def token_bytes(self, token_id: int) -> bytes:
        """Returns the token's bytes; empty for an id without a token."""
        known = self._bytes.get(token_id)
        if known is None and (known := self._look_up_bytes(token_id)) is not None:
            self._bytes[token_id] = known
        return known or b""

    def _look_up_bytes(self, token_id: int) -> bytes | None:
        if (added := self._added.get(token_id)) is not None:
            return added.encode()
        token = self._inner.convert_ids_to_tokens(token_id)
        if token is None:
            return None
        if not self.is_byte_level:
            return self.decode([token_id]).encode()
        known = [self._alphabet.get(char) for char in token]
        return bytes(byte for byte in known if byte is not None)


def _read(folder: Path, mode: str) -> PreTrainedTokenizerBase:
    """Reads `tokenizer.json` if it exists, which does not require torch.

    `AutoTokenizer` converts other formats, and is asked by the mode `hf`.
    """
    inner: PreTrainedTokenizerBase
    if mode == "auto" and (folder / "tokenizer.json").is_file():
        inner = PreTrainedTokenizerFast.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        return inner
    from transformers import AutoTokenizer  # noqa: PLC0415

    inner = AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    return inner


def _is_byte_level(inner: PreTrainedTokenizerBase) -> bool:
    decoder = inner.backend_tokenizer.decoder
    return isinstance(decoder, decoders.ByteLevel)
