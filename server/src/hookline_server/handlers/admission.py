"""How every request for the engine begins, and how it is submitted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from aiohttp import web

from hookline.pooling import PoolingParams
from hookline.sampling_params import SamplingParams
from hookline.slo import Slo
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
from hookline_server.streams import Submission
from hookline_server.tenants import client_of

Body = TypeVar("Body", bound=EngineRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission(Generic[Body]):
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

    def submission(
        self,
        identity: Identity,
        prompts: Sequence[Prompt],
        params: SamplingParams,
        *,
        may_be_shorter: bool = False,
        pooling: PoolingParams | None = None,
    ) -> Submission:
        """Returns the submission for the engine.

        Args:
            identity: The identity of the response.
            prompts: The prompts.
            params: The sampling parameters of all prompts.
            may_be_shorter: Whether `max_tokens` may be reduced to fit the context.
            pooling: How the prompts are embedded; None if text is generated.
        """
        body = self.body
        return Submission(
            prompts=prompts,
            params=params,
            facts=request_facts(
                self.request,
                response_id=identity.id,
                priority=body.priority or 0,
                slo=self.slo,
                session_id=self.session_id,
            ),
            cache_salt=body.cache_salt,
            is_streamed=body.is_streamed,
            may_be_shorter=may_be_shorter,
            kv_transfer_params=body.kv_transfer_params,
            client=client_of(self.request),
            pooling=pooling,
            data_parallel_rank=self.data_parallel_rank,
        )


async def admit(
    request: web.Request, kind: type[Body], check: Callable[[Body], None]
) -> Admission[Body]:
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
    return Admission(
        request=request,
        engine=engine,
        body=body,
        slo=slo,
        session_id=session_id,
        data_parallel_rank=rank,
    )
