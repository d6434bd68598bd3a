"""Attributes of a request's span: GenAI conventions, Hookline's and vLLM's."""

from collections.abc import Sequence

from hookline.sampling_values import SamplingValues
from hookline_metrics.adapter_trails import AdapterTrail
from hookline_otel.completions import Completions
from hookline_otel.origin import Origin
from hookline_otel.outcome import finish_reason, is_success
from hookline_otel.tracing import Pairs

PROVIDER = "hookline"
EMBEDDINGS = "embeddings"
"""The operation of requests that generate nothing."""

SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai/1.42.0"
"""Version of the GenAI conventions that the attribute names follow."""

MAX_TEXT = 256
"""Maximum characters of an attribute whose value a client chooses."""


def operation_attributes(request: Completions, origin: Origin) -> Pairs:
    """Yields what is known of every request, a rejected one included."""
    server = origin.server
    yield "gen_ai.operation.name", request.first.facts.operation
    yield "gen_ai.provider.name", PROVIDER
    yield "gen_ai.request.model", origin.model
    yield "server.address", None if server is None else server.host
    yield "server.port", None if server is None else server.port or None
    yield "error.type", request.error_type
    tenant = request.first.facts.tenant
    yield "hookline.tenant", None if tenant is None else cut(tenant)


def genai_attributes(request: Completions, model: str) -> Pairs:
    """Yields the attributes of an inference span from the GenAI conventions."""
    first = request.first
    cached = first.cached_tokens
    stored = sum(each.stored_prompt_tokens for each in request.all)
    yield "gen_ai.request.stream", first.is_streamed or None
    if first.facts.operation != EMBEDDINGS:
        yield from _sampling_attributes(first.params)
    yield "gen_ai.response.id", cut(request.response_id)
    yield "gen_ai.response.model", model
    yield "gen_ai.response.finish_reasons", tuple(map(finish_reason, request.all))
    first_chunk = request.ttft_seconds if first.is_streamed else None
    yield "gen_ai.response.time_to_first_chunk", first_chunk
    if not first.has_tokens:
        return
    yield "gen_ai.usage.input_tokens", first.prompt_tokens
    yield "gen_ai.usage.output_tokens", request.output_tokens
    yield "gen_ai.usage.cache_read.input_tokens", cached
    # What was evicted and stored again counts once.
    written = min(stored, first.prompt_tokens - cached)
    yield "gen_ai.usage.cache_write.input_tokens", written


def _sampling_attributes(params: SamplingValues) -> Pairs:
    """Yields the parameters of a request that generates."""
    yield "gen_ai.request.choice.count", None if params.n == 1 else params.n
    yield "gen_ai.request.max_tokens", params.max_tokens
    yield "gen_ai.request.temperature", params.temperature
    yield "gen_ai.request.top_p", params.top_p
    yield "gen_ai.request.top_k", params.top_k
    yield "gen_ai.request.frequency_penalty", params.frequency_penalty
    yield "gen_ai.request.presence_penalty", params.presence_penalty
    yield "gen_ai.request.stop_sequences", tuple(map(cut, params.stop)) or None
    yield "gen_ai.request.seed", params.seed


def hookline_attributes(request: Completions, engine_index: int) -> Pairs:
    """Yields attributes without a convention; names as in `FinishedRequest`.

    Intervals are those of the slowest completion, so that they add up.
    """
    slowest = request.slowest
    yield "hookline.engine_index", engine_index
    yield "hookline.request_id", request.first.request_id
    yield "hookline.queue_seconds", slowest.queue_seconds
    yield "hookline.prefill_seconds", slowest.prefill_seconds
    yield "hookline.decode_seconds", slowest.decode_seconds
    yield "hookline.preempted_seconds", slowest.preempted_seconds
    yield "hookline.ttft_seconds", request.ttft_seconds
    yield "hookline.e2e_seconds", slowest.e2e_seconds
    yield "hookline.forward_seconds", slowest.forward_seconds
    yield "hookline.execute_seconds", slowest.execute_seconds
    yield "hookline.schedule_seconds", slowest.schedule_seconds
    yield "hookline.preemptions", sum(each.preemptions for each in request.all)
    transferred = request.first.transferred_tokens
    yield "hookline.transferred_tokens", transferred or None
    recomputed = sum(each.recomputed_tokens for each in request.all)
    yield "hookline.recomputed_tokens", recomputed
    is_cut_short = not all(map(is_success, request.all))
    reasons = tuple(each.reason.value for each in request.all)
    yield "hookline.finish_reasons", reasons if is_cut_short else None


def adapter_attributes(request: Completions, trails: Sequence[AdapterTrail]) -> Pairs:
    """Yields the adapter that computed a request, and the slowest wait for it."""
    if (name := request.first.facts.lora) is None:
        return
    yield "hookline.adapter", cut(name)
    digests = (each.digest for each in trails if each.digest)
    yield "hookline.adapter_digest", next(digests, None)
    waits = (each.waited_seconds for each in trails)
    waited = [seconds for seconds in waits if seconds is not None]
    yield "hookline.adapter_wait_seconds", max(waited, default=None)


def vllm_attributes(request: Completions) -> Pairs:
    """Yields the attributes of vLLM's request spans; times in seconds, as in vLLM."""
    first, params, slowest = request.first, request.first.params, request.slowest
    yield "gen_ai.request.id", cut(request.response_id)
    if first.facts.operation != EMBEDDINGS:
        yield "gen_ai.request.n", params.n
        yield "gen_ai.request.max_tokens", params.max_tokens
        yield "gen_ai.request.temperature", params.temperature
        yield "gen_ai.request.top_p", params.top_p
    if first.has_tokens:
        yield "gen_ai.usage.prompt_tokens", first.prompt_tokens
        yield "gen_ai.usage.completion_tokens", request.output_tokens
    yield "gen_ai.latency.e2e", slowest.e2e_seconds
    yield "gen_ai.latency.time_to_first_token", request.ttft_seconds
    yield "gen_ai.latency.time_in_queue", slowest.queue_seconds
    yield "gen_ai.latency.time_in_model_prefill", slowest.prefill_seconds
    yield "gen_ai.latency.time_in_model_decode", slowest.decode_seconds
    yield "gen_ai.latency.time_in_model_inference", slowest.inference_seconds
    yield "gen_ai.latency.time_in_model_forward", slowest.forward_seconds
    yield "gen_ai.latency.time_in_model_execute", slowest.execute_seconds
    yield "gen_ai.latency.time_in_scheduler", slowest.schedule_seconds


def cut(text: str) -> str:
    """Returns at most `MAX_TEXT` characters, with invalid UTF-8 replaced."""
    return valid(text[:MAX_TEXT])


def valid(text: str) -> str:
    """Returns text that can be sent, with lone surrogates replaced."""
    return text if text.isascii() else text.encode(errors="replace").decode()
