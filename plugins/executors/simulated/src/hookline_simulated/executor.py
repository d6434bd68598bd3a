"""An executor without a model: a step-time model and a token source, on any clock.

On the system clock it puts load on everything above the model; on a virtual clock it
runs the scheduler through hours of traffic in seconds.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hookline.clock import NANOSECONDS, Clock
from hookline.engine.worker.executor import DeferredStep
from hookline.request import TokenLogprobs
from hookline.sampling_values import SamplingValues
from hookline.stats.step_work import Execution
from hookline.step import (
    AdmittedSequence,
    ModelShape,
    SleepLevel,
    StepLogprobs,
    StepPlan,
    StepResult,
)
from hookline_simulated.config import SimulationConfig
from hookline_simulated.memory import SimulatedCache
from hookline_simulated.simulation import (
    CostlySimulation,
    FollowSimulation,
    SimulatedStep,
)

_MULTIPLIER = 6364136223846793005
"""Multiplier of Knuth's MMIX generator; spreads ids and positions."""


class SimulatedExecutor:
    """Waits as long as a model would compute, and returns reproducible tokens.

    A request's tokens depend only on its prompt, seed and position, not on the batch or
    on preemptions.
    """

    pids: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()

    def __init__(
        self,
        config: SimulationConfig,
        clock: Clock,
        shape: ModelShape,
        *,
        cache: SimulatedCache | None = None,
        extensions: Sequence[FollowSimulation] = (),
        stages: int = 1,
    ) -> None:
        """Builds the executor.

        Args:
            config: Times of a step's parts.
            clock: Steps sleep on it.
            shape: The simulated model.
            cache: Simulated KV that extensions move; None without any.
            extensions: What extensions do after each step.
            stages: Number of pipeline stages, each with an equal part of a step's time.
        """
        self._costs = [
            each for each in extensions if isinstance(each, CostlySimulation)
        ]
        self.shape = self._described(shape, cache)
        self._cache = cache
        self._extensions = extensions
        self._config = config
        self._clock = clock
        self._sequences: dict[int, _Sequence] = {}
        self._sleep_level: SleepLevel | None = None
        self._stages_free_at = [0] * stages
        self._times: deque[tuple[int, int]] = deque()

    def _described(self, shape: ModelShape, cache: SimulatedCache | None) -> ModelShape:
        """Returns the shape with what extensions tell of the model."""
        sections = {} if cache is None else {**cache.sections}
        for each in self._costs:
            each.describe(sections)
        return replace(shape, rank_sections=(sections,)) if sections else shape

    def start(self, plan: StepPlan) -> DeferredStep:
        """Begins the step now; its result is there when the last stage has ended it."""
        step_ns = round(self._step_seconds(plan) * NANOSECONDS)
        ends_at = self._clock.now()
        if plan.request_ids:
            ends_at = self._pass_through_stages(step_ns)
        self._times.append((step_ns, ends_at))
        return DeferredStep(self._execute, plan)

    def _pass_through_stages(self, step_ns: int) -> int:
        """Returns when a step ends that enters the first stage as soon as it can."""
        ends_at, free_at = self._clock.now(), self._stages_free_at
        for stage in range(len(free_at)):
            begin, end = (step_ns * at // len(free_at) for at in (stage, stage + 1))
            ends_at = free_at[stage] = max(ends_at, free_at[stage]) + end - begin
        return ends_at

    def check(self) -> None:
        """Has nothing to check: there is no other process."""

    def sleep(self, level: SleepLevel) -> None:
        """Loses the contents of the KV cache; there are no weights to drop."""
        self._sleep_level = level
        if self._cache is not None:
            self._cache.free()

    def wake_up(self) -> None:
        self._sleep_level = None

    def close(self) -> None:
        self._sequences.clear()
        if self._cache is not None:
            self._cache.close()

    def _execute(self, plan: StepPlan) -> StepResult:
        assert self._sleep_level is None, "no step may be executed during sleep"
        step_ns, ends_at = self._times.popleft()
        sections: dict[str, object] = {}
        if self._cache is not None:
            self._cache.start_step(plan)
            if not plan.request_ids:
                self._cache.finish_step(sections)
                self._follow(plan, [], {}, step_ns, sections)
                return StepResult(sections=sections)
        self._change_batch(plan)
        self._clock.sleep(max(0, ends_at - self._clock.now()) / NANOSECONDS)
        prompt_logprobs = self._prompt_logprobs(plan)
        tokens, prefilled = self._compute(plan)
        self._read(tokens, sections)
        drafts = self._follow(plan, prefilled, tokens, step_ns, sections)
        return StepResult(
            tokens=tokens,
            logprobs=StepLogprobs(
                {
                    request_id: _certain(new)
                    for request_id, new in tokens.items()
                    if self._sequences[request_id].params.logprobs is not None
                },
                prompt_logprobs,
            ),
            execution=Execution(step_ns),
            drafts=drafts,
            sections=sections,
        )

    def _change_batch(self, plan: StepPlan) -> None:
        for request_id in plan.released:
            self._sequences.pop(request_id, None)
        for admitted in plan.admitted:
            self._sequences[admitted.request_id] = _Sequence(admitted)

    def _compute(
        self, plan: StepPlan
    ) -> tuple[dict[int, list[int]], list[AdmittedSequence]]:
        """Returns new tokens by request id, and complete prompts without any."""
        tokens, prefilled = {}, []
        for request_id, num_tokens in zip(
            plan.request_ids, plan.num_tokens, strict=True
        ):
            sequence = self._sequences[request_id]
            drafts = plan.drafts.get(request_id, [])
            sequence.num_computed += num_tokens - len(drafts)
            self._write(request_id)
            if sequence.num_computed < sequence.num_tokens:
                continue
            if sequence.admitted.is_prefill_only:
                prefilled.append(sequence.admitted)
            else:
                tokens[request_id] = sequence.verify(drafts, self.shape.vocab_size)
        return tokens, prefilled

    def _follow(
        self,
        plan: StepPlan,
        prefilled: Sequence[AdmittedSequence],
        tokens: Mapping[int, list[int]],
        step_ns: int,
        sections: dict[str, object],
    ) -> dict[int, list[int]]:
        """Lets extensions follow a step; returns the drafts for the next one."""
        if not self._extensions:
            return {}
        step = SimulatedStep(
            plan=plan,
            sequences={key: each.admitted for key, each in self._sequences.items()},
            texts={key: each.token_ids for key, each in self._sequences.items()},
            prefilled=prefilled,
            tokens=tokens,
            step_ns=step_ns,
            sections=sections,
        )
        for follow in self._extensions:
            follow(step)
        return step.drafts

    def _prompt_logprobs(self, plan: StepPlan) -> dict[int, list[TokenLogprobs]]:
        """Returns entries of the prompt tokens that follow those of the step."""
        found = {}
        for request_id, num_tokens in zip(
            plan.request_ids, plan.num_tokens, strict=True
        ):
            sequence = self._sequences[request_id]
            if sequence.params.prompt_logprobs is not None:
                first = sequence.num_computed + 1
                end = min(first + num_tokens, sequence.num_prompt_tokens)
                if first < end:
                    found[request_id] = _certain(sequence.token_ids[first:end])
        return found

    def _write(self, request_id: int) -> None:
        if self._cache is not None:
            sequence = self._sequences[request_id]
            self._cache.write(request_id, sequence.token_ids, sequence.num_computed)

    def _read(self, tokens: dict[int, list[int]], sections: dict[str, object]) -> None:
        """Falsifies tokens of requests with wrong KV, and has extensions end."""
        if self._cache is None:
            return
        for request_id, new in tokens.items():
            self._write(request_id)  # accepted drafts
            sequence = self._sequences[request_id]
            if not self._cache.is_right(request_id, sequence.num_computed):
                new[:] = [(token + 1) % self.shape.vocab_size for token in new]
        self._cache.finish_step(sections)

    def _step_seconds(self, plan: StepPlan) -> float:
        decodes = plan.work.decode_requests
        return (
            self._config.step_seconds
            + self._config.prefill_token_seconds * plan.work.prefill_tokens
            + self._config.decode_request_seconds * decodes
            + self._config.context_token_seconds * plan.work.context_tokens
            + self._config.draft_token_seconds * sum(map(len, plan.drafts.values()))
            + sum(each.step_seconds(plan) for each in self._costs)
        )


def _certain(token_ids: Sequence[int]) -> list[TokenLogprobs]:
    """Returns log-probabilities of tokens that no other could have replaced."""
    return [TokenLogprobs([token], [0.0], 1) for token in token_ids]


class _Sequence:
    """A request in the simulated batch."""

    __slots__ = (
        "admitted",
        "banned",
        "num_computed",
        "num_prompt_tokens",
        "params",
        "seed",
        "token_ids",
    )

    def __init__(self, admitted: AdmittedSequence) -> None:
        self.params: SamplingValues = admitted.params
        self.admitted = admitted
        self.token_ids = list(admitted.token_ids)
        self.num_computed = admitted.num_computed_tokens
        self.num_prompt_tokens = admitted.num_prompt_tokens
        self.banned = frozenset(admitted.eos_token_ids)
        prompt = admitted.token_ids[: admitted.num_prompt_tokens]
        seed = self.params.seed
        own = 0 if seed is None else seed + admitted.completion_index
        self.seed = sum(prompt) + own

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    def verify(self, drafts: Sequence[int], vocab_size: int) -> list[int]:
        """Appends and returns the drafts that it accepts, and one token more."""
        before = self.num_tokens
        for draft in [*drafts, None]:
            token = self.next_token(vocab_size)
            self.token_ids.append(token)
            if token != draft:
                break
            self.num_computed += 1
        return self.token_ids[before:]

    def next_token(self, vocab_size: int) -> int:
        """Returns a token that does not end the request, if there is any."""
        state = (self.seed + self.num_tokens) * _MULTIPLIER + 1442695040888963407
        token = (state >> 33) % vocab_size
        while token in self.banned and len(self.banned) < vocab_size:
            token = (token + 1) % vocab_size
        return token
