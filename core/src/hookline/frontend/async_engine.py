"""An engine for an event loop: streams, aborts, drains."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.core.failure import FailureBarrier
from hookline.events import StepOutput
from hookline.exceptions import EngineDeadError, HooklineError, OverloadedError
from hookline.finish_cause import Rejected
from hookline.frontend.client_request import ClientRequest, News
from hookline.frontend.front_end import FrontEnd, start_front_end
from hookline.outputs import RequestOutput
from hookline.pages import Routes
from hookline.payloads import EngineFacts, HttpAnswered
from hookline.request import RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.tokenizer import ChatMessage

T = TypeVar("T")
_RECEIVE_SECONDS = 0.2
_TEXT_THREADS = 1


class OutputStream:
    """News of one request; outputs that pile up are merged, so nothing grows."""

    def __init__(self, front_end: FrontEnd) -> None:
        self._front_end = front_end
        self._request: ClientRequest | None = None
        self._news: deque[News] = deque()
        self._has_news = asyncio.Event()
        self._is_over = False

    def __aiter__(self) -> "OutputStream":
        return self

    async def __anext__(self) -> RequestOutput:
        """The next news.

        Raises:
            EngineDeadError: The engine died before the request ended.
        """
        if self._is_over:
            raise StopAsyncIteration
        await self._has_news.wait()
        self._has_news.clear()
        merged: RequestOutput | None = None
        while self._news:
            news = self._news.popleft()
            if isinstance(news, HooklineError):
                self._is_over = True
                raise news
            merged = news if merged is None else merged.followed_by(news)
        if merged is None:
            raise StopAsyncIteration
        self._is_over = self._is_over or merged.finished
        return merged

    def abort(self, cause: str) -> None:
        """Ends the request; does nothing once it has ended."""
        if self._request is not None:
            self._front_end.abort(self._request, cause)
        self._is_over = True
        self._has_news.set()

    def start(self, request: ClientRequest) -> None:
        self._request = request

    def deliver(self, news: News) -> None:
        self._news.append(news)
        self._has_news.set()


class AsyncEngine:
    """An engine's front end on an event loop, fed by one receiving thread.

    Attributes:
        facts: What the engine turned out to be.
        failed: Set when the engine dies.
    """

    def __init__(self, front_end: FrontEnd, max_open: int) -> None:
        """Takes a started front end over; use `start`."""
        self._front_end = front_end
        self._max_open = max_open
        self._clock = SystemClock()
        self._loop = asyncio.get_running_loop()
        self._text = ThreadPoolExecutor(_TEXT_THREADS, thread_name_prefix="text")
        self._is_closing = threading.Event()
        self._is_draining = False
        self._is_quiet = asyncio.Event()
        self._is_quiet.set()
        self.facts: EngineFacts = front_end.client.facts
        self.failed = asyncio.Event()
        self._receiver = threading.Thread(
            target=self._receive, name="engine-outputs", daemon=True
        )
        self._receiver.start()

    @classmethod
    async def start(cls, config: EngineConfig) -> "AsyncEngine":
        """Starts an engine without blocking the event loop.

        Raises:
            ConfigError: An option does not fit.
            ModelLoadError: The model cannot be loaded or served.
            RegistryError: A plugin is unknown or broken.
        """
        front_end = await asyncio.to_thread(start_front_end, config)
        scheduler = config.scheduler
        return cls(front_end, scheduler.max_num_seqs + scheduler.max_num_queued_reqs)

    @property
    def is_ready(self) -> bool:
        return not (self._is_draining or self.failure or self._is_closing.is_set())

    @property
    def failure(self) -> str | None:
        """Why the engine died; None while it lives."""
        return self._front_end.failure

    @property
    def has_chat_template(self) -> bool:
        return self._front_end.tokenizer.has_chat_template

    async def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Tokenizes off the event loop."""
        encode = self._front_end.tokenizer.encode
        return await self._off_loop(
            lambda: encode(text, add_special_tokens=add_special_tokens)
        )

    async def decode(
        self, token_ids: Sequence[int], *, skip_special_tokens: bool = False
    ) -> str:
        """Detokenizes off the event loop."""
        decode = self._front_end.tokenizer.decode
        return await self._off_loop(
            lambda: decode(token_ids, skip_special_tokens=skip_special_tokens)
        )

    async def render_chat(
        self, messages: Sequence[ChatMessage], *, add_generation_prompt: bool = True
    ) -> list[int]:
        """Applies the chat template and tokenizes, off the event loop.

        Raises:
            RequestError: There is no template, or it refuses the messages.
        """
        render = self._front_end.tokenizer.render_chat
        return await self._off_loop(
            lambda: render(messages, add_generation_prompt=add_generation_prompt)
        )

    def token_text(self, token_id: int) -> str:
        return self._front_end.tokenizer.token_text(token_id)

    def token_bytes(self, token_id: int) -> bytes:
        return self._front_end.tokenizer.token_bytes(token_id)

    async def submit(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        *,
        facts: RequestFacts | None = None,
        cache_salt: str | None = None,
        kv_transfer_params: dict[str, object] | None = None,
        is_streamed: bool = True,
    ) -> OutputStream:
        """Sends a request; its news come from the stream.

        `kv_transfer_params` are for the KV connector; without one they do nothing.

        Raises:
            RequestError: The request cannot be served.
            OverloadedError: Too many are open.
            EngineDeadError: The engine is gone.
        """
        arrived_at = self._clock.now()
        prepared = await self._off_loop(
            lambda: self._front_end.prepare(
                prompt,
                params,
                facts=facts,
                cache_salt=cache_salt,
                kv_transfer_params=kv_transfer_params,
            )
        )
        if self._is_draining and self.failure is None:
            raise EngineDeadError("it is being stopped")
        # Asked last: nothing is awaited between here and the request that adds to it.
        self.check_room(params.n)
        stream = OutputStream(self._front_end)
        request = self._front_end.submit(
            prepared, stream.deliver, arrived_at=arrived_at, is_streamed=is_streamed
        )
        stream.start(request)
        self._is_quiet.clear()
        return stream

    def check_room(self, completions: int) -> None:
        """Refuses what is too much besides the completions that are open.

        Raises:
            OverloadedError: Too many would be open.
        """
        if self._front_end.num_unconfirmed + completions > self._max_open:
            raise OverloadedError(self._max_open)

    def reject(self, facts: RequestFacts, cause: Rejected) -> None:
        """Counts a request that was refused before it reached the engine."""
        self._front_end.reject(facts, cause)

    def reset_prefix_cache(self) -> None:
        self._front_end.reset_prefix_cache()

    def add_routes(self, routes: Routes) -> None:
        """Lets the loggers register their pages."""
        self._front_end.add_routes(routes)

    @property
    def needs_http(self) -> bool:
        """Whether any logger wants to hear of answered HTTP requests."""
        return self._front_end.needs_http

    def http_answered(self, answered: HttpAnswered) -> None:
        """The server has answered requests."""
        self._front_end.http_answered(answered)

    async def drain(self, timeout_seconds: float) -> bool:
        """Takes no more requests; waits for those under way. False if some remain."""
        self._is_draining = True
        try:
            await asyncio.wait_for(self._is_quiet.wait(), timeout_seconds)
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Ends the engine, its threads and its loggers; may be called twice."""
        if self._is_closing.is_set():
            return
        self._is_closing.set()
        await asyncio.to_thread(self._receiver.join)
        await asyncio.to_thread(self._front_end.client.close)
        self._front_end.end_requests()  # streams belong to this thread
        self._is_quiet.set()
        await asyncio.to_thread(self._front_end.close)
        self._text.shutdown(wait=False)

    async def _off_loop(self, work: Callable[[], T]) -> T:
        if self._is_closing.is_set():
            raise EngineDeadError("it was closed")
        return await self._loop.run_in_executor(self._text, work)

    def _receive(self) -> None:
        """The receiving thread: hands each output to the event loop, in order."""
        with FailureBarrier(self._post_death):
            while not self._is_closing.is_set():
                output = self._front_end.client.receive(_RECEIVE_SECONDS)
                if output is not None:
                    self._post(self._take, output)

    def _post_death(self, reason: str) -> None:
        self._post(self._die, reason)

    def _post(self, call: Callable[[T], None], argument: T) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, argument)

    def _take(self, output: StepOutput) -> None:
        with FailureBarrier(self._die):
            self._front_end.take(output)
        if not self._front_end.num_unconfirmed:
            self._is_quiet.set()

    def _die(self, reason: str) -> None:
        self._front_end.fail(reason)
        self.failed.set()
        self._is_quiet.set()
