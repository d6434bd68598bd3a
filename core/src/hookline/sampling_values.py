"""Sampling and stopping of a request, as the engine uses them."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import astuple, force_setattr

from hookline.frozen import EMPTY, frozen_json, frozen_map


class SamplingValues(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sampling and stopping of one request.

    Clients make `SamplingParams`, which have the same fields and check them.

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
        structured_outputs: What the text must match, which only grammars read; None
            leaves it free. A grammar that is complete ends the text, also before
            `min_tokens` and with `ignore_eos`, which only continue where the grammar
            can.
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
    structured_outputs: object | None = None
    speculation: bool = True
    extra_args: Mapping[str, object] = EMPTY

    def __post_init__(self) -> None:
        if self.logit_bias is not EMPTY:
            force_setattr(self, "logit_bias", frozen_map(self.logit_bias))
        if self.extra_args is not EMPTY:
            force_setattr(self, "extra_args", frozen_json(self.extra_args))

    def __eq__(self, other: object) -> bool:
        """Checked ones equal the same values that have come over a wire."""
        if not isinstance(other, SamplingValues):
            return NotImplemented
        return astuple(self)[:_FIELDS] == astuple(other)[:_FIELDS]

    def __hash__(self) -> int:
        return hash(astuple(self)[:_FIELDS])

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def has_penalties(self) -> bool:
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
        )


_FIELDS = len(SamplingValues.__struct_fields__)
"""A subclass has former names of some behind them."""


class SamplingDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What requests get where they are silent, as the model's makers recommend it.

    Attributes:
        values: Values of `SamplingParams`, by the names of their fields.
        most_tokens: Maximum of `max_tokens` of all requests; None sets none.
        source: The file or the option that they come from; empty for none.
    """

    values: Mapping[str, int | float] = EMPTY
    most_tokens: int | None = None
    source: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "values", frozen_map(self.values))


NO_DEFAULTS = SamplingDefaults()
