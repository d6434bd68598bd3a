"""Sampling and stopping parameters of a request."""

import math
import sys
from collections.abc import Mapping

import msgspec
from msgspec.structs import force_setattr

from hookline.exceptions import RequestError
from hookline.frozen import EMPTY, frozen_json, frozen_map
from hookline.request_limits import LOGPROBS, N, check_words
from hookline.structured_outputs import StructuredOutputsParams


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sampling and stopping of one request; wrong values raise `RequestError`.

    Attributes:
        n: Number of completions of the prompt.
        max_tokens: Maximum number of tokens to generate; None generates up to the
            context length.
        min_tokens: Minimum number of tokens before stop tokens and stop strings count.
        temperature: Divides the logits; 0 means greedy.
        top_k: Keep the k most likely tokens; None keeps all.
        top_p: Keep the smallest set of tokens with at least this probability mass
            (nucleus sampling, Holtzman et al. 2020).
        min_p: Drop tokens less likely than min_p × the likeliest (Nguyen et al. 2024).
        repetition_penalty: Divides positive and multiplies negative logits of tokens
            seen in prompt or output (CTRL, Keskar et al. 2019).
        presence_penalty: Subtracted once from the logits of tokens in the output.
        frequency_penalty: Subtracted per occurrence in the output.
        logit_bias: Added to the logits, by token id.
        allowed_token_ids: The only tokens that can be generated; None allows all.
        bad_words: Strings that must not be generated.
        stop: Strings that end the request; the text ends before them.
        stop_token_ids: Tokens that end the request, besides the model's own.
        ignore_eos: Continue after the model's end-of-text tokens.
        include_stop_str_in_output: Leave the stop string in the text.
        skip_special_tokens: Leave special tokens out of the text.
        logprobs: Number of likeliest tokens to return at each output position.
        prompt_logprobs: Number of likeliest tokens to return at each prompt position.
        seed: Makes sampling repeatable, whatever else is in the batch.
        structured_outputs: What the text must match; None leaves it free. A grammar
            that is complete ends the text, also before `min_tokens` and with
            `ignore_eos`, which only continue where the grammar can.
        speculation: Whether an engine that speculates drafts for this request.
        extra_args: Arguments for logits processors of plugins, by name.
    """

    n: int = 1
    max_tokens: int | None = 16
    min_tokens: int = 0
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = EMPTY
    allowed_token_ids: tuple[int, ...] | None = None
    bad_words: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    seed: int | None = None
    structured_outputs: StructuredOutputsParams | None = None
    speculation: bool = True
    extra_args: Mapping[str, object] = EMPTY

    def __post_init__(self) -> None:
        if self.logit_bias is not EMPTY:
            force_setattr(self, "logit_bias", frozen_map(self.logit_bias))
        if self.extra_args is not EMPTY:
            force_setattr(self, "extra_args", _frozen_arguments(self.extra_args))
        for name, low, high in _RANGES:
            value = getattr(self, name)
            # Most are usual, and a call for each costs more than all comparisons.
            if value is None or (type(value) in _NUMBERS and low <= value <= high):
                continue
            _within(name, value, low, high)
        for name in ("top_p", "repetition_penalty"):
            if getattr(self, name) == 0.0:
                raise RequestError(f"{name} must be above 0", param=name)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            _within("min_tokens", self.min_tokens, 0, self.max_tokens)
        self._check_sizes()
        if self.structured_outputs is not None:
            self._check_structured_outputs()

    def _check_sizes(self) -> None:
        if self.n != 1:
            N.check(self.n)
        for name in ("logprobs", "prompt_logprobs"):
            if (count := getattr(self, name)) is not None:
                LOGPROBS.check(count, param=name)
        if self.allowed_token_ids is not None and not self.allowed_token_ids:
            raise RequestError(
                "allowed_token_ids must not be empty", param="allowed_token_ids"
            )
        for bias in self.logit_bias.values():
            # There may be thousands of them.
            if type(bias) is not float or not -100.0 <= bias <= 100.0:
                _within("logit_bias", bias, -100.0, 100.0)
        if self.stop or self.bad_words:
            check_words(self.stop, self.bad_words)

    def _check_structured_outputs(self) -> None:
        if not isinstance(self.structured_outputs, StructuredOutputsParams):
            raise RequestError(
                "structured_outputs must be StructuredOutputsParams, not "
                f"{type(self.structured_outputs).__name__}",
                param="structured_outputs",
            )
        if self.allowed_token_ids is not None:
            raise RequestError(
                "allowed_token_ids cannot be combined with structured_outputs: the "
                "grammar decides which tokens are allowed",
                param="allowed_token_ids",
            )

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def ends_at_eos(self) -> bool:
        """Whether the model's end-of-text tokens end the text.

        A complete grammar leaves no other token.
        """
        return not self.ignore_eos or self.structured_outputs is not None

    @property
    def has_penalties(self) -> bool:
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
        )


def _frozen_arguments(arguments: Mapping[str, object]) -> Mapping[str, object]:
    try:
        return frozen_json(arguments)
    except ValueError as error:
        raise RequestError(f"extra_args has {error}", param="extra_args") from error


_MOST = 2**63 - 1
_NUMBERS = (int, float)
_RANGES: tuple[tuple[str, float, float], ...] = (
    ("n", 1, _MOST),
    ("max_tokens", 1, _MOST),
    ("min_tokens", 0, _MOST),
    ("temperature", 0.0, sys.float_info.max),
    ("top_k", 1, _MOST),
    ("top_p", 0.0, 1.0),
    ("min_p", 0.0, 1.0),
    ("repetition_penalty", 0.0, sys.float_info.max),
    ("presence_penalty", -2.0, 2.0),
    ("frequency_penalty", -2.0, 2.0),
    ("logprobs", 0, _MOST),
    ("prompt_logprobs", 0, _MOST),
    ("seed", -_MOST - 1, _MOST),
)
"""The least and the greatest value of each number."""


def _within(name: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RequestError(f"{name} must be a number, not {value!r}", param=name)
    if isinstance(value, int) and not -_MOST - 1 <= value <= _MOST:
        raise RequestError(f"{name} is out of all bounds", param=name)
    if not math.isfinite(value):
        raise RequestError(f"{name} must be finite, not {value}", param=name)
    if value < low:
        raise RequestError(f"{name} must be at least {low}, not {value}", param=name)
    if value > high:
        raise RequestError(f"{name} must be at most {high}, not {value}", param=name)


NO_SAMPLING = SamplingParams(max_tokens=None, temperature=0.0)
"""The parameters of a request that generates nothing."""
