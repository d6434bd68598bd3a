"""How every request for the engine begins, and what the engine gets of it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
from aiohttp import web

from hookline.config.extensions import KV_TRANSFER
from hookline.pooling import POOLING, PoolingParams
from hookline.request import GenerateRequest, Slo
from hookline.sampling_params import SamplingParams
from hookline.sections import present
from hookline_server.answers.answer import Identity
from hookline_server.auth.permissions import check_permissions
from hookline_server.engine import ServingEngine
from hookline_server.handlers.common import check_model, ready_engine
from hookline_server.protocol.completion import Prompt
from hookline_server.protocol.engine_request import EngineRequest
from hookline_server.request_identity import (
    named_session,
    request_facts,
    requested_slo,
)
from hookline_server.request_message import read_message
from hookline_server.requested_rank import requested_rank
from hookline_server.streams import PromptBatch, rejection_counted
from hookline_server.tenants import client_of

Body = TypeVar("Body", bound=EngineRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAdmission(Generic[Body]):
    """A request that a ready engine may serve.

    Attributes:
        request: The HTTP request.
        engine: The engine.
        body: The request's body.
        slo: The objectives that the client sets, or None.
        session_id: The session that the request belongs to, or None.
        data_parallel_rank: Index of the engine that the client names, or None.
    """

    request: web.Request
    engine: ServingEngine
    body: Body
    slo: Slo | None
    session_id: str | None
    data_parallel_rank: int | None

    async def batch(
        self,
        identity: Identity,
        prompts: Sequence[Prompt],
        params: SamplingParams,
        *,
        may_be_shorter: bool = False,
        pooling: PoolingParams | None = None,
    ) -> PromptBatch:
        """Returns a request for each prompt; texts become tokens.

        Args:
            identity: The identity of the response.
            prompts: The prompts.
            params: The sampling parameters of all prompts.
            may_be_shorter: Whether `max_tokens` may be reduced to fit the context,
                because it is a default and not the client's value.
            pooling: How the prompts are embedded; None if text is generated.

        Raises:
            RequestError: A text is too long, not Unicode, or exceeds a limit.
            OverloadedError: Too much text is waiting.
        """
        engine, body, arrived_at = self.engine, self.body, time.monotonic_ns()
        facts = request_facts(
            self.request,
            response_id=identity.id,
            priority=body.priority or 0,
            slo=self.slo,
            session_id=self.session_id,
        )
        with rejection_counted(engine, facts):
            tokens, words = await self._tokenized(prompts, params)
        most = engine.facts.model.max_model_len
        sections = present(((POOLING, pooling), (KV_TRANSFER, body.kv_transfer_params)))
        requests = [
            GenerateRequest(
                prompt_token_ids=each,
                params=fitting(params, most - len(each)) if may_be_shorter else params,
                bad_words_token_ids=words,
                facts=facts,
                cache_salt=body.cache_salt,
                sections=sections,
            )
            for each in tokens
        ]
        return PromptBatch(
            requests=requests,
            facts=facts,
            arrived_at=arrived_at,
            is_streamed=body.is_streamed,
            data_parallel_rank=self.data_parallel_rank,
        )

    async def _tokenized(
        self, prompts: Sequence[Prompt], params: SamplingParams
    ) -> tuple[list[list[int]], tuple[tuple[int, ...], ...]]:
        """Returns the tokens of the prompts, and of words that are forbidden."""
        engine, client = self.engine, client_of(self.request)
        tokens = [
            await engine.encode(each, is_prompt=True, client=client)
            if isinstance(each, str)
            else each
            for each in prompts
        ]
        if not params.bad_words:
            return tokens, ()
        return tokens, await engine.encode_words(params.bad_words, client)


def fitting(params: SamplingParams, room: int) -> SamplingParams:
    """Returns parameters whose `max_tokens` fits, if anything does."""
    if not 0 < room < (params.max_tokens or 0):
        return params
    return msgspec.structs.replace(params, max_tokens=room)


async def admit(
    request: web.Request, kind: type[Body], check: Callable[[Body], None]
) -> RequestAdmission[Body]:
    """Reads the body of a request for the engine.

    Args:
        request: The HTTP request.
        kind: The struct of its body.
        check: Raises `RequestError` for a body that is invalid or not supported.

    Raises:
        ApiError: The engine is not ready, the model is not served, or the client's key
            may not set a field.
        HTTPRequestEntityTooLarge: The body is too large.
        LimitError: The body has too many values.
        RequestError: The body or a header is invalid.
    """
    engine = ready_engine(request)
    slo = requested_slo(request)
    rank = requested_rank(request, engine.facts)
    body = await read_message(request, kind)
    check_permissions(request, body)
    check_model(engine, body.model)
    check(body)
    session_id = named_session(request, body.session_id, engine.facts)
    return RequestAdmission(
        request=request,
        engine=engine,
        body=body,
        slo=slo,
        session_id=session_id,
        data_parallel_rank=rank,
    )
