"""A request's outputs as an asynchronous iterator."""

import asyncio
from collections import deque

from hookline.exceptions import HooklineError
from hookline.frontend.client_request import ClientRequest, News
from hookline.frontend.front_end import FrontEnd
from hookline.outputs import RequestOutput


class OutputStream:
    """Outputs of one request; those that pile up are merged, so nothing grows."""

    def __init__(self, front_end: FrontEnd) -> None:
        self._front_end = front_end
        self._request: ClientRequest | None = None
        self._news: deque[News] = deque()
        self._has_news = asyncio.Event()
        self._is_over = False

    def __aiter__(self) -> "OutputStream":
        return self

    async def __anext__(self) -> RequestOutput:
        """Waits for the next output.

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
