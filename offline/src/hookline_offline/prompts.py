"""The forms of a prompt that `LLM` accepts: text, token ids, or a dictionary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NotRequired, SupportsIndex, TypedDict, TypeGuard, TypeVar

from hookline.exceptions import RequestError

T = TypeVar("T")


class TextPrompt(TypedDict):
    """A prompt as text.

    Attributes:
        prompt: The text.
        cache_salt: Restricts prefix-cache hits to prompts with the same salt.
    """

    prompt: str
    cache_salt: NotRequired[str]


class TokensPrompt(TypedDict):
    """A tokenized prompt.

    Attributes:
        prompt_token_ids: The token ids.
        prompt: The text that was tokenized, for `RequestOutput.prompt`.
        cache_salt: Restricts prefix-cache hits to prompts with the same salt.
    """

    prompt_token_ids: Sequence[int]
    prompt: NotRequired[str]
    cache_salt: NotRequired[str]


Prompt = str | Sequence[int] | TextPrompt | TokensPrompt


@dataclass(frozen=True, slots=True)
class ParsedPrompt:
    """A prompt in its normal form.

    Attributes:
        content: Text or token ids to complete.
        text: The prompt's text; None if only its token ids are known.
        cache_salt: Salt of the prefix cache's hashes, or None.
    """

    content: str | Sequence[int]
    text: str | None = None
    cache_salt: str | None = None


def parse_prompts(prompts: Prompt | Sequence[Prompt]) -> list[ParsedPrompt]:
    """Parses one prompt or a list of prompts.

    A flat list of token ids is one prompt.

    Raises:
        RequestError: A prompt has another form.
    """
    if isinstance(prompts, str | Mapping) or _is_token_ids(prompts):
        return [_parsed(prompts)]
    if not isinstance(prompts, Sequence) or isinstance(prompts, bytes):
        raise _unusable(prompts)
    return [_parsed(prompt) for prompt in prompts]


def _parsed(prompt: object) -> ParsedPrompt:
    if isinstance(prompt, str):
        return ParsedPrompt(prompt, prompt)
    if isinstance(prompt, Mapping):
        return _parsed_mapping(prompt)
    if isinstance(prompt, Sequence) and not isinstance(prompt, bytes):
        return ParsedPrompt(prompt)  # the engine's front end checks the token ids
    raise _unusable(prompt)


def _parsed_mapping(prompt: Mapping[str, object]) -> ParsedPrompt:
    text, token_ids = prompt.get("prompt"), prompt.get("prompt_token_ids")
    salt = prompt.get("cache_salt")
    if unknown := prompt.keys() - {"prompt", "prompt_token_ids", "cache_salt"}:
        names = ", ".join(sorted(map(str, unknown)))
        raise RequestError(f"unknown keys in a prompt: {names}", param="prompt")
    if not isinstance(salt, str | None):
        raise RequestError("cache_salt must be a string", param="cache_salt")
    if not isinstance(text, str | None):
        raise _unusable(text)
    if token_ids is None and text is not None:
        return ParsedPrompt(text, text, salt)
    if _is_token_ids(token_ids):
        return ParsedPrompt(token_ids, text, salt)
    raise RequestError(
        "a prompt dictionary needs prompt (text) or prompt_token_ids (a list of "
        "integers)",
        param="prompt",
    )


def _is_token_ids(value: object) -> TypeGuard[Sequence[int]]:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str | bytes)
        and bool(value)
        and isinstance(value[0], SupportsIndex)
    )


def _unusable(value: object) -> RequestError:
    kind = type(value).__name__
    return RequestError(
        "a prompt must be text, a list of token ids, or a dictionary with prompt or "
        f"prompt_token_ids, not {kind}",
        param="prompt",
    )


def per_prompt(
    name: str, value: T | Sequence[T] | None, kind: type[T], count: int
) -> list[T]:
    """Returns one value per prompt; None stands for the default `kind()`."""
    if value is None:
        return [kind()] * count
    if isinstance(value, kind):
        return [value] * count
    if not isinstance(value, Sequence) or not all(isinstance(v, kind) for v in value):
        reason = f"{name} must be {kind.__name__}, or a list with one per prompt"
        raise RequestError(reason, param=name)
    if len(value) != count:
        reason = f"{name} has {len(value)} entries, but there are {count} prompts"
        raise RequestError(reason, param=name)
    return list(value)
