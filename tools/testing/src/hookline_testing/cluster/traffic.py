"""Traffic for a simulated cluster: who asks what, and when."""

import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import Protocol

CLIENTS = 32
"""Clients that share the traffic evenly, at random."""
PROMPT_TOKENS, OUTPUT_TOKENS = 512, 32

RateAt = Callable[[float], float]
"""Requests per second at a time in seconds from the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request.

    Attributes:
        at: When it arrives, in seconds from the start.
        prompt: Its token ids.
        max_tokens: Number of tokens that it generates.
        client: Who sends it.
        turns_left: Number of turns of its conversation that follow.
    """

    at: float
    prompt: list[int]
    max_tokens: int
    client: str
    turns_left: int = 0


class Traffic(Protocol):
    """Requests in the order of their arrival, and those that follow an answer."""

    def arrivals(self) -> Iterator[Arrival]:
        """Yields the requests that wait for no answer, by their time."""
        ...

    def following(
        self, arrival: Arrival, answer: list[int], now: float
    ) -> Arrival | None:
        """Returns the request that an answer at `now` leads to, if any."""
        ...


def poisson(rate: RateAt, most: float, source: random.Random) -> Iterator[float]:
    """Yields the times of an inhomogeneous Poisson process; `rate` is `most` at most.

    By thinning: it draws at the highest rate, and keeps each time with the probability
    that the rate then has of it.
    """
    time = 0.0
    while True:
        time += source.expovariate(most)
        if source.random() * most <= rate(time):
            yield time


class Uniform:
    """A Poisson process of requests of one length that share nothing."""

    def __init__(self, rate: float, seed: int) -> None:
        self.source = random.Random(seed)  # noqa: S311 - no secret
        self._rate = rate

    def times(self) -> Iterator[float]:
        """Yields the times of arrival."""
        return poisson(lambda _: self._rate, self._rate, self.source)

    def lengths(self) -> tuple[int, int]:
        """Returns the tokens of a prompt and of its answer."""
        return PROMPT_TOKENS, OUTPUT_TOKENS

    def arrivals(self) -> Iterator[Arrival]:
        for time in self.times():
            prompt, output = self.lengths()
            yield Arrival(
                at=time,
                prompt=tokens(prompt, self.source),
                max_tokens=output,
                client=str(self.source.randrange(CLIENTS)),
            )

    def following(
        self, arrival: Arrival, answer: list[int], now: float
    ) -> Arrival | None:
        del arrival, answer, now
        return None


class Bursts(Uniform):
    """The same, where one second of ten has ten times the rate of the others."""

    PERIOD, BURST, TIMES = 10.0, 1.0, 10.0

    def times(self) -> Iterator[float]:
        mean = 1 + (self.TIMES - 1) * self.BURST / self.PERIOD
        quiet = self._rate / mean
        most = quiet * self.TIMES

        def rate(time: float) -> float:
            # A run begins quietly.
            return most if time % self.PERIOD >= self.PERIOD - self.BURST else quiet

        return poisson(rate, most, self.source)


class Curve(Uniform):
    """Requests of log-normal lengths at a rate that follows a curve, and then ends."""

    def __init__(
        self, rate: RateAt, seed: int, *, most: float, seconds: float, prompt: int = 128
    ) -> None:
        super().__init__(most, seed)
        self._rate_at = rate
        self._seconds = seconds
        self._prompt = prompt

    def times(self) -> Iterator[float]:
        times = poisson(self._rate_at, self._rate, self.source)
        return takewhile(lambda time: time < self._seconds, times)

    def lengths(self) -> tuple[int, int]:
        return (
            log_normal(self._prompt, 0.7, self.source, most=1024),
            log_normal(OUTPUT_TOKENS, 0.5, self.source, most=256),
        )


class Mixed(Uniform):
    """A Poisson process of requests of log-normal lengths."""

    def lengths(self) -> tuple[int, int]:
        return (
            log_normal(PROMPT_TOKENS, 1.0, self.source, most=6000),
            log_normal(OUTPUT_TOKENS, 0.8, self.source, most=512),
        )


class Conversations(Uniform):
    """Conversations of several turns, each of which begins with one of a few texts.

    The texts' popularity is Zipf's: the n-th is asked for 1/n as often as the first.
    A turn's prompt repeats all turns before it. Turns of one conversation follow each
    other after a pause.
    """

    TURNS = 4
    PAUSE_SECONDS = 2.0
    QUESTION_TOKENS = 48

    def __init__(
        self, rate: float, seed: int, *, groups: int, prefix_tokens: int = 1024
    ) -> None:
        super().__init__(rate / self.TURNS, seed)
        self._prefixes = [tokens(prefix_tokens, self.source) for _ in range(groups)]
        self._popularity = list(accumulate(1 / (1 + rank) for rank in range(groups)))

    def arrivals(self) -> Iterator[Arrival]:
        groups = range(len(self._prefixes))
        for time in self.times():
            [group] = self.source.choices(groups, cum_weights=self._popularity)
            question = tokens(self.QUESTION_TOKENS, self.source)
            yield Arrival(
                at=time,
                prompt=self._prefixes[group] + question,
                max_tokens=OUTPUT_TOKENS,
                client=f"group {group}",
                turns_left=self.TURNS - 1,
            )

    def following(
        self, arrival: Arrival, answer: list[int], now: float
    ) -> Arrival | None:
        if not arrival.turns_left:
            return None
        question = tokens(self.QUESTION_TOKENS, self.source)
        return replace(
            arrival,
            at=now + self.source.expovariate(1 / self.PAUSE_SECONDS),
            prompt=[*arrival.prompt, *answer, *question],
            turns_left=arrival.turns_left - 1,
        )


class ClosedLoop:
    """A list of prompts, so many of them at a time; the next one follows an answer."""

    def __init__(
        self, prompts: Sequence[list[int]], *, max_tokens: int, concurrency: int
    ) -> None:
        self._arrivals = deque(
            Arrival(at=0.0, prompt=prompt, max_tokens=max_tokens, client="")
            for prompt in prompts
        )
        self._concurrency = concurrency

    def arrivals(self) -> Iterator[Arrival]:
        for _ in range(min(self._concurrency, len(self._arrivals))):
            yield self._arrivals.popleft()

    def following(
        self, arrival: Arrival, answer: list[int], now: float
    ) -> Arrival | None:
        del arrival, answer
        return replace(self._arrivals.popleft(), at=now) if self._arrivals else None


def tokens(count: int, source: random.Random) -> list[int]:
    """Returns random token ids below 256."""
    return list(source.randbytes(count))


def log_normal(median: int, sigma: float, source: random.Random, *, most: int) -> int:
    """Returns a whole number of a log-normal distribution, from 1 to `most`."""
    value = median * math.exp(source.gauss(0.0, sigma))
    return max(1, min(most, round(value)))
