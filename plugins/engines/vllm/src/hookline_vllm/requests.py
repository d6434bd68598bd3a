"""Requests of vLLM as the accounting takes them."""

import re

from msgspec.structs import replace

from hookline.frontend.trace_context import span_ids
from hookline.frozen import EMPTY
from hookline.request import SESSION_ID, GenerateRequest, RequestFacts, Slo
from hookline.sampling_values import SamplingValues
from hookline_vllm.notices import Added, HttpFacts
from hookline_vllm.shapes import RequestShape, SamplingShape

_OPERATIONS = {"chatcmpl": "chat", "embd": "embeddings", "pool": "embeddings"}
"""By the beginnings of the ids that vLLM's endpoints give their requests."""

_FINAL_ONLY = 2
"""Value of `RequestOutputKind.FINAL_ONLY`."""


def generate_request(
    added: Added, slo: Slo | None, trace_ratio: float | None
) -> GenerateRequest:
    """Returns a request; its prompt is vLLM's own list, which nobody changes."""
    request, http = added.request, added.http or HttpFacts()
    trace_headers = http.trace_headers or dict(request.trace_headers or EMPTY)
    client_id = request.external_req_id or request.request_id
    lora = request.lora_request
    facts = RequestFacts(
        client_id=client_id,
        response_id=client_id,
        tenant=http.tenant,
        lora=None if lora is None else str(lora.lora_name),
        priority=request.priority,
        session_id=_session(request.session_id),
        trace_context=trace_headers,
        slo=slo,
        operation=_OPERATIONS.get(client_id.partition("-")[0], "text_completion"),
    )
    trace_id, span_id = span_ids(facts, trace_ratio)
    if trace_id:
        facts = replace(facts, trace_id=trace_id, span_id=span_id)
    return GenerateRequest(
        prompt_token_ids=_prompt(request),
        params=_params(request.sampling_params, added.n),
        facts=facts,
    )


def is_streamed(request: RequestShape) -> bool:
    """Whether the client gets tokens as they are generated."""
    params = request.sampling_params
    if params is None:
        return False
    kind = params.output_kind
    return bool(getattr(kind, "value", kind) != _FINAL_ONLY)


def _session(told: str | None) -> str | None:
    """Returns a session's id, unless vLLM has taken what is none for Hookline."""
    return told if told and re.fullmatch(SESSION_ID, told) else None


def _prompt(request: RequestShape) -> list[int]:
    if request.prompt_token_ids is not None:
        return request.prompt_token_ids
    embeds = request.prompt_embeds
    return [0] * (0 if embeds is None else len(embeds))


def _params(params: SamplingShape | None, n: int) -> SamplingValues:
    if params is None:
        return SamplingValues(max_tokens=None)
    return SamplingValues(
        n=n,
        max_tokens=params.max_tokens,
        min_tokens=params.min_tokens,
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=params.top_k if params.top_k > 0 else None,
    )
