"""Validates requests against the model and tokenizes them."""

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_type_hints

import msgspec
from msgspec import defstruct
from msgspec.structs import fields as fields_of

from hookline.config.extensions import KV_TRANSFER
from hookline.exceptions import GrammarError, PromptTooLongError, RequestError
from hookline.frontend.encoded_texts import TextEncoder, bad_word_spellings
from hookline.frozen import EMPTY, frozen_json, plain
from hookline.payloads import EngineFacts
from hookline.pooling import POOLING, PoolingParams, refuse_embedding
from hookline.request import EngineRequest, RequestFacts
from hookline.request_limits import check_token_lists
from hookline.request_part import PreparingFacts, RequestPart
from hookline.sampling_params import SamplingParams
from hookline.text.bounds import TextBounds
from hookline.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """A client's request that has been validated and tokenized.

    Attributes:
        prompt_token_ids: The prompt, at least one token.
        params: Sampling parameters, `max_tokens` resolved to a number.
        bad_words_token_ids: Token sequences of `bad_words`.
        facts: Facts for observers and the scheduler.
        cache_salt: See `EngineRequest`.
        prompt: Text of the prompt; None if it was given as token ids.
        parts: Parts of extensions, by their names.
    """

    prompt_token_ids: list[int]
    params: SamplingParams
    bad_words_token_ids: tuple[tuple[int, ...], ...]
    facts: RequestFacts
    cache_salt: str | None
    prompt: str | None = None
    parts: Mapping[str, RequestPart] = field(default_factory=dict)

    def child(
        self,
        index: int,
        request_id: int,
        eos_token_ids: tuple[int, ...],
        timeout_seconds: float | None = None,
        *,
        is_moved: bool = False,
    ) -> EngineRequest:
        """Returns the engine request of one completion."""
        request = EngineRequest(
            request_id=request_id,
            prompt_token_ids=self.prompt_token_ids,
            params=self.params,
            eos_token_ids=eos_token_ids,
            bad_words_token_ids=self.bad_words_token_ids,
            cache_salt=self.cache_salt,
            facts=self.facts,
            timeout_seconds=timeout_seconds,
            completion_index=index,
            is_moved=is_moved,
        )
        return self._with_parts(request) if self.parts else request

    def _with_parts(self, request: EngineRequest) -> EngineRequest:
        """Returns a request with what extensions get of it."""
        parts = self.parts.values()
        return msgspec.structs.replace(
            request,
            is_prefill_only=any(each.is_prefill_only for each in parts),
            skip_reading_prefix_cache=any(
                each.skip_reading_prefix_cache for each in parts
            ),
            sections={name: each.section for name, each in self.parts.items()},
        )


class InputProcessor:
    """Validates and tokenizes by a model's limits and its tokenizer; thread-safe.

    Attributes:
        text_bounds: How long a prompt's text may be.
    """

    def __init__(self, facts: EngineFacts, tokenizer: Tokenizer) -> None:
        self._facts = facts
        self._tokenizer = tokenizer
        self._preparing = {
            name: facts
            for name, facts in facts.sections.items()
            if isinstance(facts, PreparingFacts)
        }
        self.text_bounds = TextBounds.of(tokenizer, facts.max_model_len)

    def prepare(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        *,
        facts: RequestFacts,
        cache_salt: str | None,
        kv_transfer_params: dict[str, object] | None = None,
        encoder: TextEncoder | None = None,
        pooling: PoolingParams | None = None,
    ) -> PreparedRequest:
        """Validates and tokenizes a request; with `pooling`, it is an embedding's.

        An `encoder` takes the place of the tokenizer.

        Raises:
            RequestError: The request cannot be served; the message has the reason.
        """
        parts: Mapping[str, RequestPart] = EMPTY
        if pooling is not None or self._preparing:
            parts = self._parts(pooling)
        if kv_transfer_params is not None:
            parts = {**parts, KV_TRANSFER: RequestPart(section=kv_transfer_params)}
        self._check_lengths(params)
        _check_types(params, facts, cache_salt, kv_transfer_params)
        encoder = encoder or self._tokenizer
        is_prefill_only = bool(parts) and _is_prefill_only(parts)
        room = 0 if is_prefill_only else 1
        token_ids = self._token_ids(prompt, encoder, room)
        if not token_ids:
            raise RequestError("the prompt is empty", param="prompt")
        self._check_tokens("prompt", token_ids)
        self._check_tokens("logit_bias", params.logit_bias)
        self._check_tokens("allowed_token_ids", params.allowed_token_ids or ())
        self._check_tokens("stop_token_ids", params.stop_token_ids)
        self._check_structured_outputs(params)
        return PreparedRequest(
            prompt_token_ids=token_ids,
            params=self._fitted(
                params, len(token_ids), is_prefill_only=is_prefill_only
            ),
            bad_words_token_ids=_bad_words(params.bad_words, encoder),
            facts=facts,
            cache_salt=cache_salt,
            prompt=prompt if isinstance(prompt, str) else None,
            parts=parts,
        )

    def _parts(self, pooling: PoolingParams | None) -> Mapping[str, RequestPart]:
        """Returns what extensions of the engine make of a request.

        Raises:
            RequestError: The engine does not serve it.
        """
        if pooling is not None and POOLING not in self._preparing:
            raise refuse_embedding()
        asked = {POOLING: pooling}
        found = (
            (name, facts.prepared(asked.get(name)))
            for name, facts in self._preparing.items()
        )
        return {name: part for name, part in found if part is not None}

    def _check_structured_outputs(self, params: SamplingParams) -> None:
        if params.structured_outputs is None:
            return
        if not self._facts.structured_outputs:
            raise GrammarError(
                "structured outputs are not available: install a grammar backend "
                "(pip install hookline-xgrammar), and check "
                "--structured-outputs-config and the executor"
            )
        if not self._facts.eos_token_ids and not params.stop_token_ids:
            raise GrammarError(
                "this model has no end-of-text token, which structured outputs need: "
                "name one in stop_token_ids"
            )

    def _check_lengths(self, params: SamplingParams) -> None:
        """Checks lengths against the vocabulary, before anything is copied."""
        check_token_lists(
            self._facts.vocab_size,
            logit_bias=params.logit_bias,
            allowed_token_ids=params.allowed_token_ids or (),
            stop_token_ids=params.stop_token_ids,
        )

    def _token_ids(
        self, prompt: str | Sequence[int], encoder: TextEncoder, room: int
    ) -> list[int]:
        """Returns the prompt's tokens, which leave room for some more."""
        longest = self._facts.max_model_len
        try:
            if isinstance(prompt, str):
                self.text_bounds.check(prompt)
                return encoder.encode(prompt)
            if len(prompt) + room > longest:
                raise PromptTooLongError(len(prompt), longest)
            return [operator.index(token_id) for token_id in prompt]
        except (TypeError, UnicodeError) as error:
            reason = "the prompt is neither text nor a list of token ids"
            raise RequestError(reason, param="prompt") from error

    def _check_tokens(self, param: str, token_ids: Collection[int]) -> None:
        vocab_size = self._facts.vocab_size
        if not token_ids or (min(token_ids) >= 0 and max(token_ids) < vocab_size):
            return
        wrong = next(each for each in token_ids if not 0 <= each < vocab_size)
        raise RequestError(
            f"{param} contains token id {wrong}; valid ids are 0 to {vocab_size - 1}",
            param=param,
        )

    def _fitted(
        self, params: SamplingParams, prompt: int, *, is_prefill_only: bool
    ) -> SamplingParams:
        """Checks a prompt's length; sets `max_tokens` unless nothing is generated."""
        room = self._facts.max_model_len - prompt
        if is_prefill_only:
            if room < 0:
                raise PromptTooLongError(
                    prompt, self._facts.max_model_len, is_embedded=True
                )
            return params
        if room < 1 or (params.max_tokens is not None and params.max_tokens > room):
            raise PromptTooLongError(
                prompt, self._facts.max_model_len, max_tokens=params.max_tokens
            )
        if params.max_tokens is not None:
            return params
        if params.min_tokens > room:
            raise PromptTooLongError(
                prompt, self._facts.max_model_len, max_tokens=params.min_tokens
            )
        return msgspec.structs.replace(params, max_tokens=room)


def _is_prefill_only(parts: Mapping[str, RequestPart]) -> bool:
    return any(each.is_prefill_only for each in parts.values())


def _bad_words(
    words: Sequence[str], encoder: TextEncoder
) -> tuple[tuple[int, ...], ...]:
    """Tokens of each word at the start of a text and after a space."""
    spellings = bad_word_spellings(words)
    found = (encoder.encode(each, add_special_tokens=False) for each in spellings)
    return tuple(sorted({tuple(ids) for ids in found if ids}))


def _unchecked(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Returns a struct with the fields of another, which does not check its values."""
    hints = get_type_hints(kind, include_extras=True)
    fields = [(each.name, hints[each.name], each.default) for each in fields_of(kind)]
    return defstruct(kind.__name__, fields)


_Sent = defstruct(
    "_Sent",
    [
        ("params", _unchecked(SamplingParams)),  # they have been checked
        ("facts", RequestFacts),
        ("cache_salt", str | None),
        ("kv_transfer_params", dict[str, object] | None),
    ],
)
"""What an `EngineRequest` has of its client, with the same names."""
_encode = msgspec.msgpack.Encoder(enc_hook=plain).encode
_decode = msgspec.msgpack.Decoder(_Sent).decode


def _check_types(
    params: SamplingParams,
    facts: RequestFacts,
    cache_salt: str | None,
    kv_transfer_params: dict[str, object] | None,
) -> None:
    """Checks types as sending a request would, wherever the engine runs."""
    try:
        frozen_json(kv_transfer_params or {})  # as the engine will do
        _decode(_encode(_Sent(params, facts, cache_salt, kv_transfer_params)))
    except (
        msgspec.MsgspecError,
        TypeError,
        ValueError,
        OverflowError,
        NotImplementedError,
        RecursionError,
    ) as error:
        raise RequestError(f"the request is malformed: {error}") from error
