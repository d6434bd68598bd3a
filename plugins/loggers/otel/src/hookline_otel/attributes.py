"""Attributes of a request's span: GenAI conventions, Hookline's and vLLM's."""

from hookline.stats import FinishedRequest
from hookline_otel.outcome import error_type
from hookline_otel.spans import Pairs

PROVIDER = "hookline"
SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai/1.42.0"
"""Version of the GenAI conventions that the attribute names follow."""

MAX_TEXT = 256
"""Maximum characters of an attribute whose value a client chooses."""


def genai_attributes(request: FinishedRequest, model: str) -> Pairs:
    """Yields the attributes of an inference span from the GenAI conventions."""
    params = request.params
    cached = request.local_cached_tokens + request.external_cached_tokens
    yield "gen_ai.operation.name", request.facts.operation
    yield "gen_ai.provider.name", PROVIDER
    yield "gen_ai.request.model", model
    yield "gen_ai.request.stream", request.is_streamed
    yield "gen_ai.request.choice.count", None if params.n == 1 else params.n
    yield "gen_ai.request.max_tokens", params.max_tokens
    yield "gen_ai.request.temperature", params.temperature
    yield "gen_ai.request.top_p", params.top_p
    yield "gen_ai.request.top_k", params.top_k
    yield "gen_ai.request.frequency_penalty", params.frequency_penalty
    yield "gen_ai.request.presence_penalty", params.presence_penalty
    yield "gen_ai.request.stop_sequences", tuple(map(cut, params.stop)) or None
    yield "gen_ai.request.seed", params.seed
    yield "gen_ai.response.id", cut(request.facts.client_id) or None
    yield "gen_ai.response.model", model
    yield "gen_ai.response.finish_reasons", (request.reason.value,)
    yield "gen_ai.usage.input_tokens", request.prompt_tokens
    yield "gen_ai.usage.output_tokens", request.output_tokens
    yield "gen_ai.usage.cache_read.input_tokens", cached
    yield "error.type", error_type(request) or None


def hookline_attributes(request: FinishedRequest, engine_index: int) -> Pairs:
    """Yields attributes without a convention; names as in `FinishedRequest`."""
    tenant = request.facts.tenant
    yield "hookline.engine_index", engine_index
    yield "hookline.request_id", request.request_id
    yield "hookline.completion_index", request.completion_index
    yield "hookline.tenant", None if tenant is None else cut(tenant)
    yield "hookline.queue_seconds", request.queue_seconds
    yield "hookline.prefill_seconds", request.prefill_seconds
    yield "hookline.decode_seconds", request.decode_seconds
    yield "hookline.preempted_seconds", request.preempted_seconds
    yield "hookline.ttft_seconds", request.ttft_seconds
    yield "hookline.e2e_seconds", request.e2e_seconds
    yield "hookline.forward_seconds", request.forward_seconds
    yield "hookline.execute_seconds", request.execute_seconds
    yield "hookline.preemptions", request.preemptions
    yield "hookline.recomputed_tokens", request.recomputed_tokens


def vllm_attributes(request: FinishedRequest) -> Pairs:
    """Yields the attributes of vLLM's request spans; times in seconds, as in vLLM."""
    params = request.params
    yield "gen_ai.request.id", cut(request.facts.client_id) or str(request.request_id)
    yield "gen_ai.request.n", params.n
    yield "gen_ai.request.max_tokens", params.max_tokens
    yield "gen_ai.request.temperature", params.temperature
    yield "gen_ai.request.top_p", params.top_p
    yield "gen_ai.usage.prompt_tokens", request.prompt_tokens
    yield "gen_ai.usage.completion_tokens", request.output_tokens
    yield "gen_ai.latency.e2e", request.e2e_seconds
    yield "gen_ai.latency.time_to_first_token", request.ttft_seconds
    yield "gen_ai.latency.time_in_queue", request.queue_seconds
    yield "gen_ai.latency.time_in_model_prefill", request.prefill_seconds
    yield "gen_ai.latency.time_in_model_decode", request.decode_seconds
    yield "gen_ai.latency.time_in_model_inference", request.inference_seconds
    yield "gen_ai.latency.time_in_model_forward", request.forward_seconds
    yield "gen_ai.latency.time_in_model_execute", request.execute_seconds


def cut(text: str) -> str:
    """Returns at most `MAX_TEXT` characters, with invalid UTF-8 replaced."""
    return text[:MAX_TEXT].encode(errors="replace").decode()
