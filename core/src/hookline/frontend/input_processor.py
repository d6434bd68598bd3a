"""Makes requests of prompts, and checks and completes them."""

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, get_type_hints

import msgspec
from msgspec import defstruct
from msgspec.structs import fields as fields_of

from hookline.config.observers import ObserverConfig
from hookline.exceptions import GrammarError, PromptTooLongError, RequestError
from hookline.frontend.text_bounds import TextBounds
from hookline.frontend.trace_context import span_ids
from hookline.frozen import frozen_json, plain
from hookline.payloads import EngineFacts
from hookline.plugin_loading.logits_processors import refuse_what_needs, usual_missing
from hookline.pooling import POOLING, refuse_embedding
from hookline.request import GenerateRequest, RequestFacts, Slo
from hookline.request_part import PreparingFacts
from hookline.sampling_params import SamplingParams
from hookline.sampling_values import SamplingValues
from hookline.sections import NO_SECTIONS, Sections

if TYPE_CHECKING:  # gateways have none
    from hookline.tokenizer import Tokenizer


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
        ("sections", Sections),
    ],
)
"""What a `GenerateRequest` has of its caller, with the same names."""
_encode = msgspec.msgpack.Encoder(enc_hook=plain).encode
_decode = msgspec.msgpack.Decoder(_Sent).decode


class InputProcessor:
    """Checks requests by a model's limits, and completes them; thread-safe.

    Attributes:
        missing_processors: Usual ones that requests of Hookline's engine cannot have.
        text_bounds: How long a prompt's text may be.
    """

    def __init__(
        self, facts: EngineFacts, tokenizer: "Tokenizer", config: ObserverConfig
    ) -> None:
        """Checks for engines of one model.

        Args:
            facts: The model, and what extensions of its engines say of requests.
            tokenizer: The model's tokenizer.
            config: The objectives of requests, and how many are traced.
        """
        self._facts = facts
        self._tokenizer = tokenizer
        self._config = config
        self._preparing = {
            name: section
            for name, section in facts.sections.items()
            if isinstance(section, PreparingFacts)
        }
        self.missing_processors = usual_missing()
        self.text_bounds = TextBounds.of(tokenizer, facts.model.max_model_len)

    # -- tokens --------------------------------------------------------------------

    def encode(self, prompt: str | Sequence[int]) -> list[int]:
        """Returns the token ids of a caller's prompt.

        Raises:
            RequestError: It is neither text nor a list of token ids, or too long.
        """
        try:
            if isinstance(prompt, str):
                if len(prompt) > self.text_bounds.sure_chars:
                    self.text_bounds.check(prompt)
                return self._tokenizer.encode(prompt)
            if len(prompt) > self._facts.model.max_model_len:  # before it is copied
                raise PromptTooLongError(len(prompt), self._facts.model.max_model_len)
            return [operator.index(token_id) for token_id in prompt]
        except (TypeError, UnicodeError) as error:
            reason = "the prompt is neither text nor a list of token ids"
            raise RequestError(reason, param="prompt") from error

    def encode_words(self, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Returns the token ids of words that must not be generated."""
        encode = self._tokenizer.encode
        found = [encode(each, add_special_tokens=False) for each in spellings(words)]
        return distinct(found)

    # -- requests ------------------------------------------------------------------

    def prepare(self, request: GenerateRequest) -> GenerateRequest:
        """Checks a request, and completes it but for what its engine adds.

        Raises:
            RequestError: The request cannot be served; the message has the reason.
        """
        params, token_ids = request.params, request.prompt_token_ids
        if self.missing_processors:
            refuse_what_needs(self.missing_processors, params)
        if request.sections or self._preparing:
            request = self._with_parts(request)
        if not token_ids:
            raise RequestError("the prompt is empty", param="prompt")
        longest = self._facts.model.max_model_len
        if len(token_ids) >= longest and not request.is_prefill_only:
            raise PromptTooLongError(len(token_ids), longest)
        self._check_tokens("prompt", token_ids)
        for name in ("logit_bias", "allowed_token_ids", "stop_token_ids"):
            if listed := getattr(params, name):
                self._check_tokens(name, listed)
        if params.structured_outputs is not None:
            self._check_structured_outputs(params)
        fitted = self._fitted(params, len(token_ids), request.is_prefill_only)
        return msgspec.structs.replace(
            request, params=fitted, facts=completed(request.facts, self._config)
        )

    def _with_parts(self, request: GenerateRequest) -> GenerateRequest:
        """Returns a request with what extensions of the engine make of it.

        Raises:
            RequestError: The engine does not serve it.
        """
        asked = request.sections
        if POOLING in asked and POOLING not in self._preparing:
            raise refuse_embedding()
        found = (
            (name, facts.prepared(asked.get(name), request))
            for name, facts in self._preparing.items()
        )
        parts = {name: part for name, part in found if part is not None}
        sections = {n: each for n, each in asked.items() if n not in self._preparing}
        sections |= {name: part.section for name, part in parts.items()}
        return msgspec.structs.replace(
            request,
            is_prefill_only=any(each.is_prefill_only for each in parts.values()),
            skip_reading_prefix_cache=any(
                each.skip_reading_prefix_cache for each in parts.values()
            ),
            sections=sections or NO_SECTIONS,
            adapter=next(
                (each.adapter for each in parts.values() if each.adapter), None
            ),
        )

    def _check_tokens(self, param: str, token_ids: Collection[int]) -> None:
        vocab_size = self._facts.model.vocab_size
        if min(token_ids) >= 0 and max(token_ids) < vocab_size:
            return
        wrong = next(each for each in token_ids if not 0 <= each < vocab_size)
        raise RequestError(
            f"{param} contains token id {wrong}; valid ids are 0 to {vocab_size - 1}",
            param=param,
        )

    def _check_structured_outputs(self, params: SamplingValues) -> None:
        if not self._facts.structured_outputs:
            raise GrammarError(
                "structured outputs are not available: install a grammar backend "
                "(pip install hookline-xgrammar), and check "
                "--structured-outputs-config and the executor"
            )
        if not self._facts.model.eos_token_ids and not params.stop_token_ids:
            raise GrammarError(
                "this model has no end-of-text token, which structured outputs need: "
                "name one in stop_token_ids"
            )

    def _fitted(
        self, params: SamplingValues, prompt: int, is_prefill_only: bool
    ) -> SamplingValues:
        """Checks the length with output; sets `max_tokens` if any is generated."""
        longest = self._facts.model.max_model_len
        room = longest - prompt
        if is_prefill_only:
            if room < 0:
                raise PromptTooLongError(prompt, longest, is_embedded=True)
            return params
        least = params.min_tokens if params.max_tokens is None else params.max_tokens
        if least > room:
            raise PromptTooLongError(prompt, longest, max_tokens=least)
        if params.max_tokens is not None:
            return params
        return msgspec.structs.replace(params, max_tokens=room)


def completed(facts: RequestFacts, config: ObserverConfig) -> RequestFacts:
    """Returns facts with default objectives, and the ids of its span if it is traced.

    Args:
        facts: A request's facts.
        config: The objectives of requests, and how many are traced.
    """
    slo = config.slo if facts.slo is None else over(facts.slo, config.slo)
    trace_id, span_id = facts.trace_id, facts.span_id
    if trace_id or facts.trace_context or config.trace_ratio:
        trace_id, span_id = span_ids(facts, config.trace_ratio)
    if (slo, trace_id, span_id) == (facts.slo, facts.trace_id, facts.span_id):
        return facts
    return msgspec.structs.replace(facts, slo=slo, trace_id=trace_id, span_id=span_id)


def over(slo: Slo, base: Slo | None) -> Slo:
    """Returns objectives, with those of `base` where these are None."""
    limits = msgspec.structs.asdict(slo).items()
    given = {name: limit for name, limit in limits if limit is not None}
    return msgspec.structs.replace(base or Slo(), **given)


def check_types(request: GenerateRequest) -> None:
    """Checks types as sending a request would, for callers whose values are not typed.

    Raises:
        RequestError: An engine could not read the request.
    """
    sections = request.sections
    try:
        for section in sections.values():
            if isinstance(section, Mapping):
                frozen_json(section)  # as the extension may do
        _decode(
            _encode(_Sent(request.params, request.facts, request.cache_salt, sections))
        )
    except (
        msgspec.MsgspecError,
        TypeError,
        ValueError,
        OverflowError,
        NotImplementedError,
        RecursionError,
    ) as error:
        raise RequestError(f"the request is malformed: {error}") from error


def spellings(words: Sequence[str]) -> list[str]:
    """Returns each word as it is at the start of a text, and after a space."""
    return [text for word in words for text in (word, " " + word.lstrip())]


def distinct(token_ids: Collection[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Returns the token ids of words, without duplicates and empty ones."""
    return tuple(sorted({tuple(ids) for ids in token_ids if ids}))
