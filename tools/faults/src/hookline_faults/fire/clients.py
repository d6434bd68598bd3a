"""Clients of a server under fire: all answers are right, or errors as documented."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

import aiohttp

from hookline_faults.hostile.crowd import Question

ALLOWED = frozenset(
    {
        *("engine_restarting", "engine_unavailable", "engine_stalled", "engine_error"),
        *("aborted", "overloaded", "too_many_connections", "sleeping"),
    }
)
"""Codes with which a request may end whose process was killed, or that finds none."""
SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {"yes": {"type": "boolean"}},
    "required": ["yes"],
    "additionalProperties": False,
}
_PAUSE_SECONDS = 0.25
_MOST_WRONG = 50


@dataclass(slots=True)
class Clients:
    """Clients that ask one question after the other until they are cancelled.

    Attributes:
        url: The server.
        questions: What they ask, with the right answers once `learn` has returned.
        counts: How requests ended: `right`, `cut` (its connection broke), `left` (by
            the client), `refused` (as it should be), or an error's code.
        wrong: Answers that are not right, and errors that are not allowed.
    """

    url: str
    questions: list[Question]
    source: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=count)

    async def learn(self) -> None:
        """Asks each question once, while nothing is wrong."""
        async with self._session() as session:
            for question in self.questions:
                body = question.body(stream=False)
                async with session.post(self._path, json=body) as response:
                    assert response.status == 200, await response.text()
                    self.counts["right"] += 1
                    answer = await response.json()
                    question.right = answer["choices"][0]["text"]

    async def keep_asking(self) -> None:
        """One client; each of its requests has a connection of its own."""
        kinds = (self._whole, self._whole, self._stream, self._grammar, self._leave)
        rare = (self._slow_grammar, self._malformed)
        async with self._session() as session:
            while True:
                is_rare = self.source.random() < 0.05
                ask = self.source.choice(rare if is_rare else kinds)
                try:
                    outcome = await ask(session, self.source.choice(self.questions))
                except (aiohttp.ClientError, TimeoutError):
                    outcome = "cut"
                self.counts[outcome] += 1
                if outcome not in {"right", "refused", "left"}:
                    await asyncio.sleep(_PAUSE_SECONDS)

    async def keep_scraping(self) -> None:
        """Reads the metrics each second, and wants no counter to fall."""
        highest: dict[str, float] = {}
        async with self._session() as session:
            while True:
                try:
                    async with session.get(f"{self.url}/metrics") as response:
                        page = await response.text()
                        is_there = response.status == 200
                except (aiohttp.ClientError, TimeoutError):
                    is_there = False
                if is_there:
                    self._compare(totals(page), highest)
                await asyncio.sleep(1.0)

    def _compare(self, found: Mapping[str, float], highest: dict[str, float]) -> None:
        for name, value in found.items():
            if value < highest.get(name, 0.0):
                self.note(f"{name} fell from {highest[name]} to {value}")
            highest[name] = value
        self.counts["scrapes"] += 1

    def note(self, what: str) -> None:
        """Keeps what is wrong."""
        if len(self.wrong) < _MOST_WRONG:
            self.wrong.append(what)

    @property
    def _path(self) -> str:
        return f"{self.url}/v1/completions"

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=180),
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
        )

    async def _whole(self, session: aiohttp.ClientSession, asked: Question) -> str:
        async with session.post(self._path, json=asked.body(stream=False)) as response:
            answer = await response.json(content_type=None)
            if response.status != 200:
                return self._error(response.status, answer)
            return self._judged(answer["choices"][0]["text"], asked)

    async def _stream(self, session: aiohttp.ClientSession, asked: Question) -> str:
        async with session.post(self._path, json=asked.body(stream=True)) as response:
            if response.status != 200:
                return self._error(response.status, await response.json())
            text = ""
            async for line in response.content:
                if line == b"data: [DONE]\n":
                    return self._judged(text, asked)
                if line.startswith(b"data: "):
                    event = json.loads(line.removeprefix(b"data: "))
                    if "error" in event:
                        return self._error(503, event)
                    if event.get("choices"):
                        text += event["choices"][0]["text"]
            return "cut"

    async def _grammar(self, session: aiohttp.ClientSession, asked: Question) -> str:
        body = {
            **asked.body(stream=False),
            "max_tokens": 30,
            "temperature": 1.0,
            "guided_json": SCHEMA,
        }
        async with session.post(self._path, json=body) as response:
            answer = await response.json(content_type=None)
            if response.status != 200:
                return self._error(response.status, answer)
            choice = answer["choices"][0]
            if choice["finish_reason"] == "length":
                return "right"  # it may be cut short
            if not isinstance(json.loads(choice["text"]).get("yes"), bool):
                self.note(f"no answer of the schema: {choice['text']!r}")
            return "right"

    async def _slow_grammar(
        self, session: aiohttp.ClientSession, asked: Question
    ) -> str:
        pattern = f"(a|b|{next(self._numbers)})" + "{1,3000}" * 2
        body = {**asked.body(stream=False), "guided_regex": pattern}
        return await self._refused(session, body, may_be_served=True)

    async def _malformed(self, session: aiohttp.ClientSession, asked: Question) -> str:
        return await self._refused(
            session, {**asked.body(stream=False), "temperature": "hot"}
        )

    async def _refused(
        self,
        session: aiohttp.ClientSession,
        body: Mapping[str, object],
        *,
        may_be_served: bool = False,
    ) -> str:
        async with session.post(self._path, json=body) as response:
            answer = await response.json(content_type=None)
            if response.status == 400:
                return "refused"
            if response.status == 200 and may_be_served:
                return "right"
            if response.status == 200:
                self.note(f"a bad request was served: {body}")
                return "right"
            return self._error(response.status, answer)

    async def _leave(self, session: aiohttp.ClientSession, asked: Question) -> str:
        body = asked.body(stream=True) | {"max_tokens": 200, "ignore_eos": True}
        async with session.post(self._path, json=body) as response:
            if response.status != 200:
                return self._error(response.status, await response.json())
            await response.content.readany()
            response.close()
        return "left"

    def _judged(self, text: str, asked: Question) -> str:
        if text != asked.right:
            self.note(f"{text!r} for {asked.right!r}")
            return "wrong"
        return "right"

    def _error(self, status: int, answer: Mapping[str, Mapping[str, str]]) -> str:
        code = answer.get("error", {}).get("code") or f"{status} without a code"
        if code not in ALLOWED:
            self.note(f"{status}: {answer}")
        return code


def totals(page: str) -> dict[str, float]:
    """Returns everything on a page of metrics that must never fall."""
    found = {}
    for line in page.splitlines():
        series, _, value = line.rpartition(" ")
        name = series.partition("{")[0]
        is_own = not name.startswith(("process_", "python_", "#"))
        if is_own and name.endswith(("_total", "_bucket", "_count", "_sum")):
            found[series] = float(value)
    return found
