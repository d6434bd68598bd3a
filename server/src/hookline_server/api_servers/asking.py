"""An API server's questions to its parent, and what it asks for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec
from aiohttp import web

from hookline_metrics.front_end_parts import ResponseStoreStats
from hookline_server.api_error import ApiError
from hookline_server.api_servers.questions import (
    Answer,
    AnyAnswer,
    Ask,
    Chain,
    Charge,
    Delete,
    Deleted,
    Draw,
    Drawn,
    EndDraw,
    Found,
    Holder,
    Keep,
    LookAtScale,
    Question,
    Scale,
    Scaled,
    ScaleSeen,
)
from hookline_server.api_servers.scaling_errors import ScalingRefused, error_of
from hookline_server.auth.allowance import refusal
from hookline_server.engine_number import ScalingReport, ScalingState
from hookline_server.response_store import Owner, StoredResponse

ANSWER_SECONDS = 10.0

A = TypeVar("A", bound=AnyAnswer)


class Questions:
    """Matches answers with questions; for one event loop."""

    def __init__(
        self,
        send: Callable[[msgspec.Struct], None],
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """Sends questions with `send`, and waits so long for the answers."""
        self.tell = send
        self._answer_seconds = answer_seconds
        self._last_number = 0
        self._open: dict[int, asyncio.Future[AnyAnswer]] = {}

    async def ask(
        self,
        question: Question,
        *kinds: type[A],
        is_timed: bool = True,
    ) -> tuple[int, A]:
        """Asks, and returns the question's number and the answer.

        Args:
            question: The question.
            kinds: What the answer may be.
            is_timed: Whether the answer must come soon; else the parent has a time for
                it.

        Raises:
            ApiError: 503; no answer came in time.
        """
        self._last_number += 1
        number = self._last_number
        future = asyncio.get_running_loop().create_future()
        self._open[number] = future
        self.tell(Ask(number, question))
        try:
            seconds = self._answer_seconds if is_timed else None
            answer = await asyncio.wait_for(future, seconds)
        except TimeoutError:
            message = "the process that keeps what API servers share does not answer"
            raise ApiError(503, message, code="service_unavailable") from None
        finally:
            del self._open[number]
        assert isinstance(answer, kinds)
        return number, answer

    def on_answer(self, answer: Answer) -> None:
        """Takes an answer; one that nobody waits for is ignored."""
        future = self._open.get(answer.number)
        if future is not None and not future.done():
            future.set_result(answer.answer)


class SharedResponses:
    """The responses that the parent keeps for all servers."""

    stats = ResponseStoreStats
    """The parent reports what it keeps."""

    def __init__(self, questions: Questions, *, is_enabled: bool) -> None:
        """Asks the parent."""
        self.is_enabled = is_enabled
        self._questions = questions

    def keep(self, entry: StoredResponse) -> None:
        if self.is_enabled:
            self._questions.tell(Keep(entry))

    async def chain(self, owner: Owner, response_id: str) -> list[StoredResponse]:
        _, found = await self._questions.ask(Chain(owner, response_id), Found)
        return found.entries

    async def holder(self, owner: Owner, item_id: str) -> StoredResponse | None:
        _, found = await self._questions.ask(Holder(owner, item_id), Found)
        return next(iter(found.entries), None)

    async def delete(self, owner: Owner, response_id: str) -> bool:
        _, deleted = await self._questions.ask(Delete(owner, response_id), Deleted)
        return deleted.was_there

    async def lifetime(self, _: web.Application) -> AsyncIterator[None]:
        """Does nothing: the parent drops them at its end."""
        yield


class SharedScaling:
    """The number of engines, which the parent changes for all servers."""

    def __init__(self, questions: Questions) -> None:
        """Asks the parent."""
        self._questions = questions

    async def report(self) -> ScalingReport:
        _, seen = await self._questions.ask(LookAtScale(), ScaleSeen)
        return seen.report

    async def scale(self, number: int, *, drain_seconds: float) -> ScalingState:
        question = Scale(number, drain_seconds)
        _, answer = await self._questions.ask(
            question, Scaled, ScalingRefused, is_timed=False
        )
        if isinstance(answer, ScalingRefused):
            raise error_of(answer)
        assert isinstance(answer, Scaled)
        return answer.state


class SharedAllowance:
    """What one request draws on, of budgets that the parent keeps."""

    __slots__ = ("_draw", "_headers", "_number", "_questions")

    def __init__(self, questions: Questions, draw: Draw) -> None:
        """Draws on the budgets of a key and a tenant."""
        self._questions = questions
        self._draw = draw
        self._number = 0
        self._headers: dict[str, str] = {}

    @asynccontextmanager
    async def used(self) -> AsyncIterator[None]:
        """Counts the request as open.

        Raises:
            ApiError: 429; a limit has no room for it.
        """
        number, drawn = await self._questions.ask(self._draw, Drawn)
        self._headers = drawn.headers
        if drawn.exceeded is not None:
            raise refusal(drawn.exceeded)
        self._number = number
        try:
            yield
        finally:
            self._questions.tell(EndDraw(number))

    def charge(self, tokens: int) -> None:
        """Takes tokens that the request has used."""
        self._questions.tell(Charge(self._number, tokens))

    def headers(self) -> dict[str, str]:
        """Returns OpenAI's headers of rate limits, as of the request's begin."""
        return self._headers
