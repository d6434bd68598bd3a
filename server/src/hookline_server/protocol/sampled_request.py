"""The fields that `/v1/responses` shares with the completion endpoints."""

import msgspec

from hookline_server.protocol.extra_args import Argument
from hookline_server.protocol.parameter_types import (
    CacheSalt,
    LogitBias,
    MinP,
    NotNegative,
    Penalty,
    RepetitionPenalty,
    Stop,
    StopTokenIds,
    Temperature,
    TokenBudget,
    TopK,
    TopP,
)
from hookline_server.protocol.wire import Int64


class SampledRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling, stopping and priority; null means a field's default."""

    model: str | None = None
    stream: bool | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    stop: Stop | None = None
    stop_token_ids: StopTokenIds | None = None
    min_tokens: NotNegative | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: RepetitionPenalty | None = None
    logit_bias: LogitBias | None = None
    seed: Int64 | None = None
    priority: Int64 | None = None
    cache_salt: CacheSalt | None = None
    session_id: str | None = None
    thinking_token_budget: TokenBudget | None = None
    vllm_xargs: dict[str, Argument] | None = None
