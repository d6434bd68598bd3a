"""How every request for the engine begins, and what the engine gets of it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Generic, TypeVar

import msgspec
from aiohttp import web
from msgspec import UNSET

from hookline.config.extensions import KV_TRANSFER
from hookline.frontend.stop_strings import StopScope
from hookline.pooling import POOLING, PoolingParams
from hookline.request import GenerateRequest, Slo
from hookline.request_limits import LOGPROBS
from hookline.sampling_params import SamplingParams
from hookline_server.adapters import adapters_of, manager_of
from hookline_server.answers.answer import Identity
from hookline_server.api_error import NO_MODEL, ApiError
from hookline_server.auth.permissions import check_permissions
from hookline_server.context import ENGINE, SETTINGS
from hookline_server.engine import ServingEngine
from hookline_server.handlers.common import MAX_SHOWN, unready_reason
from hookline_server.header_options import (
    RANK_HEADER,
    SESSION_HEADER,
    SLO_HEADER,
    named_session,
    requested_rank,
    requested_slo,
)
from hookline_server.ignored import ignored_of
from hookline_server.protocol.completion import Prompt
from hookline_server.protocol.engine_request import EngineRequest
from hookline_server.protocol.transfer_params import check_remote_length
from hookline_server.request_body import read_message
from hookline_server.request_identity import (
    IDENTITY,
    RequestIdentity,
    request_facts,
)
from hookline_server.settings import MaxTokensPolicy
from hookline_server.streams import PromptBatch

Body = TypeVar("Body", bound=EngineRequest)
_LONGEST_NAME = 256
"""Characters of the longest name of an adapter."""
_MOST_SHOWN = 20
_MOST_COMPARED = 1000
"""Names that a wrong one is compared with, for its error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAdmission(Generic[Body]):
    """A request that a ready engine may serve.

    Attributes:
        request: The HTTP request.
        identity: Who asks.
        engine: The engine.
        body: The request's body.
        slo: The objectives that the client sets, or None.
        session_id: The session that the request belongs to, or None.
        data_parallel_rank: Index of the engine that the client names, or None.
        adapter: The adapter that it names as its model, or None.
    """

    request: web.Request
    identity: RequestIdentity
    engine: ServingEngine
    body: Body
    slo: Slo | None
    session_id: str | None
    data_parallel_rank: int | None
    adapter: str | None

    def response_identity(self, prefix: str) -> Identity:
        """Returns the identity of the response; `prefix` begins its id."""
        facts, config = self.engine.facts, self.engine.facts.config_hash
        return Identity(
            id=prefix + self.identity.request_id,
            created=int(time.time()),
            model=self.adapter or facts.model_name,
            system_fingerprint=f"fp_{config}" if config else UNSET,
        )

    def _check_logprobs(self, params: SamplingParams) -> None:
        most = self.request.app[SETTINGS].max_logprobs
        for name in ("logprobs", "prompt_logprobs"):
            if (count := getattr(params, name)) is not None:
                LOGPROBS.check(count, most=most, param=name)

    async def batch(
        self,
        identity: Identity,
        prompts: Sequence[Prompt],
        params: SamplingParams,
        *,
        may_be_shorter: bool = False,
        policy: MaxTokensPolicy = MaxTokensPolicy.REFUSE,
        pooling: PoolingParams | None = None,
        stop_scopes: Sequence[StopScope] = (),
    ) -> PromptBatch:
        """Returns a request for each prompt; texts become tokens.

        Args:
            identity: The identity of the response.
            prompts: The prompts.
            params: The sampling parameters of all prompts.
            may_be_shorter: Whether `max_tokens` may be reduced to fit the context,
                because it is a default and not the client's value.
            policy: Whether the client's value may be, too, unless an option says it.
            pooling: How the prompts are embedded; None if text is generated.
            stop_scopes: Where stop strings count in each prompt's text; empty if they
                do in all of it.

        Raises:
            RequestError: A text is too long, not Unicode, or exceeds a limit.
            OverloadedError: Too much text is waiting.
        """
        self._check_logprobs(params)
        engine, body, arrived_at = self.engine, self.body, time.monotonic_ns()
        client = self.identity.client
        self.identity.facts = facts = request_facts(
            self.request,
            response_id=identity.id,
            priority=body.priority or 0,
            slo=self.slo,
            session_id=self.session_id,
            adapter=self.adapter,
        )
        tokens: list[list[int]] = []
        for prompt in prompts:
            if isinstance(prompt, str):
                ids = await engine.texts.encode(prompt, is_prompt=True, client=client)
                tokens.append(ids)
            else:
                tokens.append(prompt)
        words: tuple[tuple[int, ...], ...] = ()
        if params.bad_words:
            words = await engine.texts.encode_words(params.bad_words, client)
        model = engine.facts.model
        most = model.max_model_len
        if model.sampling.most_tokens is not None:
            params = self._bounded(
                params, model.sampling.most_tokens, is_told=not may_be_shorter
            )
        policy = self.request.app[SETTINGS].max_tokens_policy or policy
        clamps = may_be_shorter or policy is MaxTokensPolicy.CLAMP
        sections: dict[str, object] = {}
        if pooling is not None:
            sections[POOLING] = pooling
        if body.kv_transfer_params is not None:
            sections[KV_TRANSFER] = body.kv_transfer_params
        requests = []
        for each in tokens:
            if body.kv_transfer_params is not None:
                check_remote_length(body.kv_transfer_params, len(each))
            own = fitting(params, most - len(each)) if clamps else params
            if own is not params and not may_be_shorter:
                ignored_of(self.request).add("limit", "max_tokens")
            request = GenerateRequest(
                prompt_token_ids=each,
                params=own,
                bad_words_token_ids=words,
                facts=facts,
                cache_salt=body.cache_salt,
                sections=sections,
            )
            requests.append(request)
        return PromptBatch(
            requests=requests,
            identity=self.identity,
            arrived_at=arrived_at,
            is_streamed=bool(body.stream),
            data_parallel_rank=self.data_parallel_rank,
            stop_scopes=stop_scopes,
        )

    def _bounded(
        self, params: SamplingParams, most_tokens: int, *, is_told: bool
    ) -> SamplingParams:
        """Returns parameters with at most so many tokens; the client may be told."""
        bounded = fitting(params, most_tokens)
        if bounded is not params and is_told:
            ignored_of(self.request).add("limit", "max_tokens")
        return bounded


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
    engine, identity = ready_engine(request), request[IDENTITY]
    headers = request.headers
    slo = requested_slo(headers[SLO_HEADER]) if SLO_HEADER in headers else None
    rank = None
    if RANK_HEADER in headers:
        rank = requested_rank(headers[RANK_HEADER], engine.facts)
    body = await read_message(request, kind)
    if identity.key is not None:
        check_permissions(request, identity.key, body)
    adapter = await named_adapter(request.app, body.model)
    check(body)
    session_id = None
    if engine.facts.enable_kv_cache_events:  # or no event would tell it
        session_id = named_session(headers.get(SESSION_HEADER, ""), body.session_id)
    return RequestAdmission(
        request=request,
        identity=identity,
        engine=engine,
        body=body,
        slo=slo,
        session_id=session_id,
        data_parallel_rank=rank,
        adapter=adapter,
    )


def ready_engine(request: web.Request) -> ServingEngine:
    """Returns the engine; raises `ApiError` if it cannot accept requests."""
    engine = request.app[ENGINE]
    if not engine.is_ready and (reason := unready_reason(engine)) is not None:
        raise ApiError(503, reason, code="engine_unavailable")
    return engine


def served_names(app: web.Application) -> list[str]:
    """Returns the names of the served model; responses and metrics have the first."""
    others = app[SETTINGS].other_names
    return list(dict.fromkeys((app[ENGINE].facts.model_name, *others)))


async def named_adapter(app: web.Application, name: str | None) -> str | None:
    """Returns the adapter that is named as the model; None if it is the model itself.

    An adapter may be looked for where others have loaded it.

    Raises:
        ApiError: Neither is served under this name.
    """
    names = served_names(app)
    if name is None or name in names:
        return None
    facts = app[ENGINE].facts
    if (manager := manager_of(facts)) is not None:
        if len(name) <= _LONGEST_NAME and await manager.find(app[ENGINE].call, name):
            return name
    elif name in adapters_of(facts):
        return name
    raise _unserved(name, (*names, *adapters_of(facts)))


def _unserved(name: str, served: Sequence[str]) -> ApiError:
    """Returns the error for a name, which shows the nearest ones, or the first."""
    near = get_close_matches(name[:_LONGEST_NAME], served[:_MOST_COMPARED])
    first, rest = served[:_MOST_SHOWN], len(served) - _MOST_SHOWN
    shown = ", ".join(map(repr, near or first))
    more = f" and {rest} more" if rest > 0 and not near else ""
    return ApiError(
        404,
        f"the model {name[:MAX_SHOWN]!r} is not served; "
        f"{'did you mean' if near else 'available:'} {shown}{more}{'?' * bool(near)}",
        code=NO_MODEL,
        param="model",
    )
