"""Simulated engines behind a balancer, each on a virtual clock of its own."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import (
    CacheConfig,
    LoadBalancing,
    SchedulerConfig,
    SimulationConfig,
)
from hookline.core.engine_core import EngineCore
from hookline.frontend.balancing.making import make_balancer
from hookline.frontend.input_processor import PreparedRequest
from hookline.request import RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.stats import SchedulerStats
from hookline_testing.simulation import engine_request, simulated_core

WAITING_WEIGHT = 4


class SimulatedEngine:
    """A core, its clock, and its load as a front end knows it."""

    def __init__(
        self, index: int, cache: CacheConfig, simulation: SimulationConfig
    ) -> None:
        self.index = index
        self.clock = VirtualClock()
        self.core: EngineCore = simulated_core(
            cache=cache,
            scheduler=SchedulerConfig(max_num_batched_tokens=2048),
            simulation=simulation,
            max_model_len=4096,
            clock=self.clock,
        )
        self.cached_tokens = 0
        self._stats = SchedulerStats()
        self._unheard = 0

    @property
    def load(self) -> int:
        waiting = WAITING_WEIGHT * self._stats.waiting
        return waiting + self._stats.running + self._unheard

    def add(self, number: int, prompt: Sequence[int], max_tokens: int, at: int) -> None:
        """Sends a request at a time, which an idle engine has waited for."""
        if not self.core.has_work:
            self.clock.sleep(max(0, at - self.clock.now()) / NANOSECONDS)
        self.core.add(engine_request(number, prompt, max_tokens))
        self._unheard += 1

    def step(self) -> int:
        """Runs a step; returns how many requests have ended."""
        output = self.core.step()
        self._stats = output.stats
        self._unheard -= len(output.queued)
        self.cached_tokens += sum(each.local_cached_tokens for each in output.scheduled)
        return len(output.finished)


class BalancedCores:
    """Engines that serve a list of prompts, so many of them at a time."""

    def __init__(
        self,
        balancing: LoadBalancing,
        *,
        engines: int,
        cache: CacheConfig,
        simulation: SimulationConfig,
    ) -> None:
        self.engines = [
            SimulatedEngine(index, cache, simulation) for index in range(engines)
        ]
        facts = {
            each.index: replace(each.core.facts, engine_index=each.index)
            for each in self.engines
        }
        self._numbers = count(1)
        self._balancer = make_balancer(balancing, facts)

    @property
    def cached_tokens(self) -> int:
        """Tokens of prompts that were found in the engines' caches."""
        return sum(each.cached_tokens for each in self.engines)

    def serve(
        self, prompts: Sequence[Sequence[int]], *, max_tokens: int, concurrency: int
    ) -> float:
        """Serves all prompts; returns the virtual seconds until the last has ended."""
        begin = max(each.clock.now() for each in self.engines)
        now, num_open = begin, 0
        waiting = deque(prompts)
        while waiting or num_open:
            while waiting and num_open < concurrency:
                prompt = waiting.popleft()
                chosen = self._balancer.choose(self.engines, _prepared(prompt))
                engine = self.engines[chosen.engine_index]
                engine.add(next(self._numbers), prompt, max_tokens, now)
                num_open += 1
            busy = [each for each in self.engines if each.core.has_work]
            next_one = min(busy, key=lambda each: each.clock.now())
            num_open -= next_one.step()
            now = next_one.clock.now()
        end = max(each.clock.now() for each in self.engines)
        return (end - begin) / NANOSECONDS


def _prepared(prompt: Sequence[int]) -> PreparedRequest:
    return PreparedRequest(
        prompt_token_ids=list(prompt),
        params=SamplingParams(),
        bad_words_token_ids=(),
        facts=RequestFacts(),
        cache_salt=None,
    )
