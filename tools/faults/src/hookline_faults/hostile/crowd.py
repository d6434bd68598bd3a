"""Well-behaved clients: their answers are compared with those of a quiet server."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

LEAVE_SHARE = 0.10
BAD_SHARE = 0.05
_TOO_BUSY = {429, 503}
_MOST_WRONG = 50
_BAD: Sequence[dict[str, object]] = (
    {"temperature": "hot"},
    {"max_tokens": -1},
    {"prompt": []},
    {"n": 10**9},
)


@dataclass(slots=True)
class Question:
    """A prompt, and the text that a quiet server completes it with."""

    prompt: list[int]
    max_tokens: int
    right: str = ""

    def body(self, *, stream: bool) -> dict[str, object]:
        return {
            "model": "demo",
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "stream": stream,
        }


def make_questions(count: int, source: random.Random) -> list[Question]:
    """Returns questions of random tokens."""
    return [
        Question(
            [source.randrange(10, 4000) for _ in range(source.randint(4, 200))],
            source.randint(4, 48),
        )
        for _ in range(count)
    ]


@dataclass(slots=True)
class Crowd:
    """Clients that ask questions of a server, all at once.

    Attributes:
        counts: How requests ended.
        wrong: Answers that were not right.
        longest_seconds: The longest time that a whole answer took.
    """

    url: str
    key: str
    questions: Sequence[Question]
    source: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    longest_seconds: float = 0.0

    async def learn(self) -> None:
        """Asks each question once, one after another, and keeps the answers."""
        async with self._session() as session:
            for question in self.questions:
                body = question.body(stream=False)
                async with session.post(self._path, json=body) as response:
                    assert response.status == 200, await response.text()
                    answer = await response.json()
                    question.right = answer["choices"][0]["text"]

    async def keep_asking(self) -> None:
        """One client; asks until it is cancelled."""
        async with self._session() as session:
            while True:
                try:
                    await self._ask(session)
                except (aiohttp.ClientError, TimeoutError) as error:
                    self.counts["broken"] += 1
                    self._note(f"{type(error).__name__}: {error}")

    async def scrape(self) -> None:
        """Reads the metrics and the health each second, until it is cancelled."""
        async with self._session() as session:
            while True:
                for page in ("/metrics", "/health"):
                    async with session.get(self.url + page) as response:
                        await response.read()
                        if response.status != 200:
                            self._note(f"{page}: {response.status}")
                self.counts["scrapes"] += 1
                await asyncio.sleep(1.0)

    @property
    def _path(self) -> str:
        return f"{self.url}/v1/completions"

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=aiohttp.ClientTimeout(total=300),
            connector=aiohttp.TCPConnector(limit=0),
        )

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        chance = self.source.random()
        question = self.source.choice(self.questions)
        if chance < BAD_SHARE:
            await self._ask_badly(session, question)
        elif chance < BAD_SHARE + LEAVE_SHARE:
            await self._leave(session, question)
        else:
            await self._ask_well(session, question)

    async def _ask_badly(
        self, session: aiohttp.ClientSession, question: Question
    ) -> None:
        body = question.body(stream=False) | self.source.choice(_BAD)
        async with session.post(self._path, json=body) as response:
            await response.read()
            self.counts["refused"] += 1
            if response.status != 400:
                self._note(f"a bad request got {response.status}")

    async def _leave(self, session: aiohttp.ClientSession, question: Question) -> None:
        body = question.body(stream=True) | {"max_tokens": 200, "ignore_eos": True}
        async with session.post(self._path, json=body) as response:
            if response.status == 200:
                await response.content.readany()
            response.close()
        self.counts["left"] += 1

    async def _ask_well(
        self, session: aiohttp.ClientSession, question: Question
    ) -> None:
        begun = time.monotonic()
        stream = self.source.random() < 0.5
        async with session.post(
            self._path, json=question.body(stream=stream)
        ) as response:
            if response.status in _TOO_BUSY:
                self.counts["shed"] += 1
                await asyncio.sleep(0.5)
                return
            data = await response.read()
            if response.status != 200:
                self._note(f"{response.status}: {data[:200]!r}")
                return
        text = _streamed(data) if stream else json.loads(data)["choices"][0]["text"]
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - begun)
        self.counts["right" if text == question.right else "wrong"] += 1
        if text != question.right:
            self._note(f"{text!r} for {question.right!r}")

    def _note(self, what: str) -> None:
        if len(self.wrong) < _MOST_WRONG:
            self.wrong.append(what)


def _streamed(data: bytes) -> str:
    events = [
        json.loads(line.removeprefix(b"data: "))
        for line in data.split(b"\n\n")
        if line.startswith(b"data: {")
    ]
    if not data.rstrip().endswith(b"data: [DONE]"):
        return "the stream broke off"
    return "".join(
        event["choices"][0]["text"] for event in events if "choices" in event
    )
