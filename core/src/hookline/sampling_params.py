"""Sampling and stopping parameters of a request, as clients give them."""

import math
import sys

from msgspec.structs import force_setattr

from hookline.exceptions import RequestError
from hookline.frozen import EMPTY
from hookline.request_limits import LOGPROBS, N, check_words
from hookline.sampling_values import SamplingValues
from hookline.structured_outputs import StructuredOutputsParams

GuidedDecodingParams = StructuredOutputsParams
"""vLLM's former name."""


class SamplingParams(SamplingValues, frozen=True, kw_only=True, omit_defaults=True):
    """Sampling and stopping of one request; wrong values raise `RequestError`.

    `SamplingValues` describes the fields. Engines trust the values that they get.

    Attributes:
        structured_outputs: What the text must match; None leaves it free.
        guided_decoding: vLLM's former name of `structured_outputs`, which takes it.
    """

    structured_outputs: StructuredOutputsParams | None = None
    guided_decoding: StructuredOutputsParams | None = None

    def __post_init__(self) -> None:
        if self.guided_decoding is not None:
            if self.structured_outputs is not None:
                reason = "set structured_outputs or guided_decoding, not both"
                raise RequestError(reason, param="guided_decoding")
            force_setattr(self, "structured_outputs", self.guided_decoding)
            force_setattr(self, "guided_decoding", None)
        if self.logit_bias is not EMPTY or self.extra_args is not EMPTY:
            self._freeze()
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

    def _freeze(self) -> None:
        try:
            super().__post_init__()
        except ValueError as error:
            reason = f"extra_args has {error}"
            raise RequestError(reason, param="extra_args") from error

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
