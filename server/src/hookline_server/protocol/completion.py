"""Messages of `/v1/completions`."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hookline.exceptions import PromptTooLongError, RequestError
from hookline.request_limits import CHOICES, LOGPROBS
from hookline_server.protocol.generation import GenerationRequest, check_generation
from hookline_server.protocol.prompt_logprobs import PromptLogprobsJson
from hookline_server.protocol.request_metrics import ResponseMetrics
from hookline_server.protocol.schema_notes import (
    Refused,
    TokenIdsJson,
    bounds,
    held,
)
from hookline_server.protocol.transfer_params import TransferParams
from hookline_server.protocol.usage import Usage
from hookline_server.protocol.wire import Int64

DEFAULT_MAX_TOKENS = 16

Prompt = str | list[int]


class CompletionRequest(GenerationRequest, frozen=True, kw_only=True):
    """A request; `suffix` and `best_of` are not supported and refused."""

    prompt: (
        Annotated[str, bounds(minLength=1)]
        | Annotated[list[str | Int64 | list[Int64]], bounds(minItems=1)]
    )
    echo: bool | None = None
    logprobs: Annotated[Int64, bounds(minimum=0, maximum=LOGPROBS.most)] | None = None
    add_special_tokens: bool | None = None
    best_of: Int64 | None = None
    suffix: Refused = None
    prompt_embeds: Refused = None


class CompletionLogprobs(msgspec.Struct, frozen=True):
    """Log-probabilities of a choice, as parallel lists."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(msgspec.Struct, kw_only=True):
    """One completion, or its new part in a chunk."""

    index: int
    text: str
    logprobs: CompletionLogprobs | Annotated[Raw, held(CompletionLogprobs)] | None = (
        None
    )
    prompt_logprobs: PromptLogprobsJson | UnsetType = UNSET
    prompt_token_ids: TokenIdsJson | UnsetType = UNSET
    token_ids: TokenIdsJson | UnsetType = UNSET
    finish_reason: str | None = None
    stop_reason: str | int | None = None


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A complete response, or one chunk of a stream."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str | UnsetType = UNSET
    choices: list[CompletionChoice]
    usage: Usage | UnsetType | None = UNSET
    kv_transfer_params: TransferParams = UNSET
    metrics: ResponseMetrics | UnsetType | None = UNSET


def check(request: CompletionRequest) -> None:
    """Checks the request; raises `RequestError` if it is invalid or not supported."""
    check_generation(request)
    if request.max_tokens == 0 and not request.echo:
        raise RequestError("max_tokens must be at least 1", param="max_tokens")
    if request.best_of is not None and request.best_of != (request.n or 1):
        raise RequestError("best_of other than n is not supported", param="best_of")


def prompts(
    request: CompletionRequest, max_model_len: int, *, most_tokens: int | None = None
) -> list[Prompt]:
    """Returns the prompts, one or several of the same kind.

    Args:
        request: The request.
        max_model_len: The model's context length.
        most_tokens: Number of last token ids of each prompt that are kept, or None.

    Raises:
        RequestError: They are of an unknown or of several kinds, or too many.
        PromptTooLongError: Token ids leave no room for a token to generate.
    """
    given = request.prompt
    if isinstance(given, str):
        return [given]
    if not given:
        raise RequestError("prompt must not be empty", param="prompt")
    found: list[Prompt]
    if isinstance(given[0], int):
        found = [_token_ids(given, max_model_len, most_tokens)]
    else:
        CHOICES.check(len(given) * (request.n or 1))
        found = [
            each
            if isinstance(each, str)
            else _token_ids(each, max_model_len, most_tokens)
            for each in given
            if not isinstance(each, int)
        ]
        if len(found) != len(given) or len({type(each) for each in found}) != 1:
            raise _mixed()
    if request.kv_transfer_params is not None and len(found) > 1:
        raise RequestError(
            "kv_transfer_params are those of one prompt, and there are "
            f"{len(found)}: send them one by one",
            param="kv_transfer_params",
        )
    return found


def _token_ids(
    given: Sequence[object], max_model_len: int, most_tokens: int | None
) -> list[int]:
    """Returns a prompt's token ids; its length is checked before they are copied."""
    if most_tokens is not None:
        given = given[-most_tokens:]
    if len(given) >= max_model_len:
        raise PromptTooLongError(len(given), max_model_len)
    token_ids = [each for each in given if isinstance(each, int)]
    if len(token_ids) != len(given):
        raise _mixed()
    return token_ids


def _mixed() -> RequestError:
    return RequestError(
        "prompt must be a string, a list of strings, a list of token ids or a "
        "list of lists of token ids",
        param="prompt",
    )
