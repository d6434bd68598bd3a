"""A scripted engine and a client of the server in front of it."""

import asyncio
import struct
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self, TypeVar, cast

import msgspec
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from hookline import hookspecs
from hookline.config.extensions import KV_TRANSFER
from hookline.engine.commands import EngineCommand, ResetPrefixCache, Told
from hookline.exceptions import (
    EngineDeadError,
    OverloadedError,
    PromptTooLongError,
    RequestError,
)
from hookline.finish_cause import Rejected
from hookline.front_end_parts import FrontEndPart
from hookline.frontend.observing import Observing, TellFirst
from hookline.frontend.stop_strings import StopScope, StopSearch
from hookline.frozen import EMPTY
from hookline.outputs import CompletionOutput, RequestMetrics, RequestOutput
from hookline.pages import PageHandler, RoutesOf
from hookline.payloads import EngineFacts, HttpAnswered, RecordsLogged
from hookline.pooling import POOLING, PooledVectors, PoolingParams
from hookline.request import (
    FinishReason,
    GenerateRequest,
    RequestFacts,
    TokenLogprobs,
)
from hookline.sampling_params import SamplingParams
from hookline.step import ModelShape
from hookline_processes.fair_queue import NOBODY, Client
from hookline_registry import PluginRegistry
from hookline_server.app import create_app
from hookline_server.engine_number import EngineNumber, ScalingReport, ScalingState
from hookline_server.probe import ProbeOutcome, ProbeResult
from hookline_server.settings import ServerSettings

FACTS = EngineFacts(
    engine_index=0,
    model_name="fake",
    model=ModelShape(
        architecture="Fake",
        dtype="float32",
        cache_dtype="float32",
        vocab_size=0x110000,
        max_model_len=64,
        eos_token_ids=(),
        num_kv_blocks=4,
    ),
    block_size=16,
    max_num_seqs=8,
    max_num_batched_tokens=64,
    enable_prefix_caching=True,
    executor="fake",
)


R = TypeVar("R")
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class FakeStream:
    """Returns the engine's scripted outputs."""

    engine: "FakeEngine"
    request: GenerateRequest
    facts: RequestFacts
    is_streamed: bool
    ends_at: int | None = None
    aborted: asyncio.Event = field(default_factory=asyncio.Event)
    cause: str | None = None
    is_over: bool = False
    output_tokens: int = 0
    searches: list[StopSearch] = field(default_factory=list)

    @property
    def prompt(self) -> list[int]:
        return self.request.prompt_token_ids

    @property
    def params(self) -> SamplingParams:
        params = self.request.params
        assert isinstance(params, SamplingParams), "the server has made and checked it"
        return params

    @property
    def cache_salt(self) -> str | None:
        return self.request.cache_salt

    @property
    def kv_transfer_params(self) -> dict[str, object] | None:
        params = self.request.sections.get(KV_TRANSFER)
        return dict(params) if isinstance(params, Mapping) else None

    @property
    def pooling(self) -> PoolingParams | None:
        return cast("PoolingParams | None", self.request.sections.get(POOLING))

    @property
    def prompt_tokens(self) -> int:
        return len(self.prompt)

    @property
    def is_open(self) -> bool:
        return not (self.is_over or self.aborted.is_set())

    async def __aiter__(self) -> AsyncIterator[RequestOutput]:
        script = self.engine.script
        pieces = script if self.is_streamed else ("".join(script),)
        total = 0
        for number, piece in enumerate(pieces):
            if number >= self.engine.free_steps:
                await self._wait()
            if self.engine.refusal is not None:
                raise self.engine.refusal
            if self.engine.failure is not None:
                raise EngineDeadError(self.engine.failure)
            if self.aborted.is_set():
                return
            total += len(piece)
            self.output_tokens = total * self.params.n
            self.is_over = number + 1 == len(pieces)
            text = self._searched(piece) if self.searches else piece
            yield self._output(text, total, is_first=number == 0)
            if self.is_over:
                return

    def scope_stops(self, scope: StopScope) -> None:
        """From now on, stop strings end this stream."""
        params = self.params
        keeps = params.include_stop_str_in_output
        self.searches.append(scope(params.stop, include_stop=keeps))

    def _searched(self, piece: str) -> str:
        (search,) = self.searches
        text = search.push(piece, can_stop=True)
        if self.is_over and search.found is None:
            text += search.flush(can_stop=True)
        if search.found is not None:
            self.is_over = True
            self.engine.stop_reason = search.found
            self.engine.finish_reason = FinishReason.STOP
        return text

    def abort(self, cause: str) -> None:
        if self.is_open:
            self.cause = cause
            self.aborted.set()

    async def _wait(self) -> None:
        waits = [
            asyncio.ensure_future(event.wait())
            for event in (self.engine.gate, self.aborted)
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _output(self, piece: str, total: int, *, is_first: bool) -> RequestOutput:
        wants = self.params.prompt_logprobs
        completions = [self._completion(n, piece, total) for n in range(self.params.n)]
        return RequestOutput(
            prompt_token_ids=self.prompt,
            outputs=completions,
            prompt_logprobs=(
                None
                if wants is None or not is_first
                else [_logprobs(token, wants) for token in self.prompt[1:]]
            ),
            cached_tokens=self.engine.cached_tokens,
            finished=self.is_over,
            metrics=self.engine.metrics if self.is_over else None,
            kv_transfer_params=self.engine.transfer_params if self.is_over else None,
            vectors=self._vectors(),
        )

    def _vectors(self) -> PooledVectors | None:
        """One vector of two numbers per prompt, or one per token."""
        if self.pooling is None or self.engine.finish_reason is FinishReason.ABORT:
            return None
        count = len(self.prompt) if self.pooling.task == "token_embed" else 1
        size = self.pooling.dimensions or 2
        values = [float(len(self.prompt)), *[0.5] * (size - 1)] * count
        return PooledVectors(count, struct.pack(f"<{len(values)}f", *values))

    def _completion(self, index: int, piece: str, total: int) -> CompletionOutput:
        tokens = [ord(character) for character in piece]
        wants = self.params.logprobs
        return CompletionOutput(
            index=index,
            text=piece,
            token_ids=tokens,
            logprobs=(
                None if wants is None else [_logprobs(token, wants) for token in tokens]
            ),
            finish_reason=self.engine.finish_reason if self.is_over else None,
            stop_reason=self.engine.stop_reason if self.is_over else None,
            output_tokens=total,
            draft_tokens=self.engine.draft_tokens,
            accepted_tokens=self.engine.accepted_tokens,
        )


class FakeNumber:
    """The number of engines of a `FakeEngine`; a script may set its error.

    Attributes:
        asked: Every number that was asked for, and the time for requests.
        error: What `scale` raises.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[int, float]] = []
        self.error: Exception | None = None
        self.is_changing = False
        self.wanted = 1
        self.state = ScalingState((0,))

    async def report(self) -> ScalingReport:
        return ScalingReport(self.state, self.wanted, self.is_changing)

    async def scale(self, number: int, *, drain_seconds: float) -> ScalingState:
        self.asked.append((number, drain_seconds))
        if self.error is not None:
            raise self.error
        self.wanted = number
        self.state = ScalingState(tuple(range(number)))
        return self.state


class FakeEngine:
    """An engine with scripted output, one token per character.

    Attributes:
        script: Text of each completion, one piece per step.
        stop_reason: The stop string or token that ends each completion.
        gate: Set to let streams proceed; they wait for it before each step.
        max_open: Maximum number of open completions.
        free_steps: Number of first steps that do not wait for the gate.
        streams: All submitted streams.
        rejected: Reasons of rejections.
        rejected_facts: The facts of the rejected requests.
        refusal: Error that takes the place of all output; None for none.
        commands: Commands that `call` got.
        replies: Reply of `call` to each kind of command; an exception is raised.
        pages: Registered by `add_routes`.
        loggers: Loggers with hookimpls of `add_routes`.
        needs_http: Whether the server reports answered HTTP requests.
        answered: The reports of HTTP requests.
        trace_id: Trace of all requests; empty if they are not traced.
        needs_records: Whether the server passes on the records of its log.
        logged: The records of the log.
        reported: Set at each report.
        settled: Loggers that got all before a page of theirs was made.
        unconfirmed_ends: When completions ended that it has not confirmed, by id.
        tell_first: What the server tells before a page is made.
        transfer_params: Parameters of its KV connector for clients.
        metrics: Metrics of its requests.
        chats: Messages of each rendered conversation.
        variables: Further variables of each rendered conversation.
        clients: Whose turn each text took.
        ranks: The engine that each request named, or None.
    """

    def __init__(
        self,
        script: Sequence[str] = ("Hell", "o"),
        *,
        finish_reason: FinishReason = FinishReason.LENGTH,
    ) -> None:
        self.facts = FACTS
        self.model = "folder/of/fake"
        self.failed = asyncio.Event()
        self.failure: str | None = None
        self.script = tuple(script)
        self.finish_reason = finish_reason
        self.stop_reason: str | int | None = None
        self.cached_tokens = 0
        self.draft_tokens = self.accepted_tokens = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.max_open = 1000
        self.free_steps = 0
        self.submitted = asyncio.Event()
        self.streams: list[FakeStream] = []
        self.rejected: list[Rejected] = []
        self.rejected_facts: list[RequestFacts] = []
        self.refusal: RequestError | None = None
        self.commands: list[object] = []
        self.replies: dict[type, object] = {ResetPrefixCache: Told()}
        self.chats: list[list[dict[str, object]]] = []
        self.variables: list[dict[str, object]] = []
        self.clients: list[Client] = []
        self.ranks: list[int | None] = []
        self.pages: dict[str, PageHandler] = {}
        self.loggers: list[object] = []
        self.needs_http = True
        self.answered: list[HttpAnswered] = []
        self.trace_id = ""
        self.needs_records = False
        self.logged: list[RecordsLogged] = []
        self.parts: list[FrontEndPart] = []
        self.reported = asyncio.Event()
        self.settled: list[str] = []
        self.unconfirmed_ends: dict[int, int] = {}
        self.tell_first: TellFirst | None = None
        self.transfer_params: dict[str, object] | None = None
        self.metrics: RequestMetrics | None = None
        self.is_draining = False
        self.is_asleep = False
        self.scaling = FakeNumber()
        self.stall: str | None = None
        self.num_probes = 0
        self.probe_results = (ProbeResult(0, ProbeOutcome.TOKEN, 0.01),)
        self.is_closed = False

    def capability(self, kind: type[T]) -> T | None:
        return cast("T", self.scaling) if kind is EngineNumber else None

    @property
    def texts(self) -> Self:
        return self

    @property
    def is_ready(self) -> bool:
        return self.failure is None and not self.is_draining

    @property
    def ailment(self) -> str | None:
        return self.failure or self.stall

    async def probe(self, timeout_seconds: float) -> tuple[ProbeResult, ...]:  # noqa: ARG002
        self.num_probes += 1
        await self.gate.wait()
        return self.probe_results

    def fail(self, reason: str) -> None:
        """Dies."""
        self.failure = reason
        self.failed.set()
        self.gate.set()

    async def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        is_prompt: bool = False,
        client: Client = NOBODY,
    ) -> list[int]:
        self.clients.append(client)
        tokens = [ord(character) for character in text]
        # A special token would be in the way of the tests of prompts.
        return [1, *tokens] if add_special_tokens and not is_prompt else tokens

    async def decode(
        self, token_ids: Sequence[int], *, skip_special_tokens: bool = False
    ) -> str:
        kept = [token for token in token_ids if token > 1 or not skip_special_tokens]
        return "".join(chr(token) for token in kept)

    async def render_chat(
        self,
        messages: list[dict[str, object]],
        *,
        variables: Mapping[str, object] = EMPTY,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        chat_template: str | None = None,
        is_prompt: bool = True,  # noqa: ARG002
        client: Client = NOBODY,
    ) -> list[int]:
        self.clients.append(client)
        self.chats.append(messages)
        self.variables.append(dict(variables))
        text = "".join(f"{message['content']}\n" for message in messages)
        if continue_final_message:
            text = text.removesuffix("\n")
        text = (chat_template or "") + text + ">" * add_generation_prompt
        return [ord(character) for character in text]

    @property
    def tokenizer_info(self) -> Mapping[str, object]:
        return {"tokenizer_class": "Characters"}

    @property
    def special_texts(self) -> frozenset[str]:
        return frozenset({"<special>"})

    def token_text(self, token_id: int) -> str:
        return chr(token_id)

    def token_bytes(self, token_id: int) -> bytes:
        return chr(token_id).encode()

    async def encode_words(
        self, words: Sequence[str], client: Client = NOBODY
    ) -> tuple[tuple[int, ...], ...]:
        self.clients.append(client)
        return tuple(tuple(map(ord, word)) for word in words)

    def add(
        self,
        request: GenerateRequest,
        *,
        arrived_at: int,  # noqa: ARG002
        is_streamed: bool = True,
        ends_at: int | None = None,
        data_parallel_rank: int | None = None,
    ) -> FakeStream:
        tokens, params = request.prompt_token_ids, request.params
        self.ranks.append(data_parallel_rank)
        if self.failure is not None:
            raise EngineDeadError(self.failure)
        if not tokens:
            raise RequestError("the prompt is empty", param="prompt")
        if len(tokens) + (params.max_tokens or 1) > self.facts.model.max_model_len:
            raise PromptTooLongError(
                len(tokens),
                self.facts.model.max_model_len,
                max_tokens=params.max_tokens,
            )
        self.check_room(params.n)
        facts = self._completed(request.facts)
        stream = FakeStream(self, request, facts, is_streamed, ends_at)
        self.streams.append(stream)
        self.submitted.set()
        return stream

    def check_room(self, completions: int) -> None:
        taken = sum(each.params.n for each in self.streams if each.is_open)
        if taken + completions > self.max_open:
            raise OverloadedError(self.max_open)

    def reject(self, facts: RequestFacts, cause: Rejected) -> RequestFacts:
        facts = self._completed(facts)
        self.rejected.append(cause)
        self.rejected_facts.append(facts)
        return facts

    def _completed(self, facts: RequestFacts) -> RequestFacts:
        if not self.trace_id:
            return facts
        span_id = f"{len(self.streams) + len(self.rejected) + 1:016x}"
        return msgspec.structs.replace(facts, trace_id=self.trace_id, span_id=span_id)

    async def call(self, command: EngineCommand[R]) -> tuple[R, ...]:
        """Returns the reply configured in `replies`."""
        self.commands.append(command)
        reply = self.replies[type(command)]
        if isinstance(reply, Exception):
            raise reply
        return (cast("R", reply),)

    @property
    def observers(self) -> Observing:
        return cast("Observing", self)

    def listens(self, hook: str) -> bool:
        """Whether anybody listens to a hook of the server."""
        return {
            "http_answered": self.needs_http,
            "records_logged": self.needs_records,
        }[hook]

    def add_routes(
        self, routes_of: RoutesOf, tell_first: TellFirst | None = None
    ) -> None:
        self.tell_first = tell_first
        for path, handler in self.pages.items():
            routes_of("fake").get(path, handler)
        registry = PluginRegistry("hookline", hookspecs)
        for index, logger in enumerate(self.loggers):
            name = f"logger {index}"
            registry.register(logger, name)
            registry.call_one(name, "add_routes", routes=routes_of(name))

    def settle(self, logger: str) -> float:
        self.settled.append(logger)
        return 0.0

    def http_answered(self, answered: HttpAnswered) -> None:
        self.answered.append(answered)
        self.reported.set()

    def records_logged(self, logged: RecordsLogged) -> None:
        self.logged.append(logged)

    def report(self, read: Callable[[], FrontEndPart]) -> None:
        self.parts.append(read())

    def report_changes(self) -> None:
        """Does nothing: all was passed on."""

    async def drain(self, timeout_seconds: float) -> bool:
        self.is_draining = True
        return timeout_seconds > 0

    async def close(self) -> None:
        self.is_closed = True


@asynccontextmanager
async def client_of(
    engine: FakeEngine, settings: ServerSettings | None = None
) -> AsyncGenerator[TestClient[Request, Application], None]:
    """Yields a client of a server in front of the engine."""
    app = create_app(engine, settings or ServerSettings())
    async with TestClient(TestServer(app)) as client:
        yield client


def _logprobs(token: int, likeliest: int) -> TokenLogprobs:
    others = [token + offset for offset in range(likeliest)]
    scores = [-0.25 - 0.25 * offset for offset in range(likeliest)]
    return TokenLogprobs([token, *others], [-0.25, *scores], 1)
