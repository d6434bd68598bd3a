"""An executor without a model: a step-time model and a token source, on any clock.

With the system clock it loads everything above the model; with a virtual one it runs
the scheduler through hours of traffic in seconds.
"""

from hookline.clock import Clock
from hookline.config import SimulationConfig
from hookline.request import TokenLogprobs
from hookline.sampling_params import SamplingParams
from hookline.scheduler.plan import AdmittedSequence, StepPlan, StepResult
from hookline.worker.executor import DeferredStep, ModelShape

_MULTIPLIER = 6364136223846793005
"""Of Knuth's MMIX linear congruential generator; spreads ids and positions."""


class SimulatedExecutor:
    """Takes the time a model would take and answers with repeatable tokens.

    A request's tokens depend on its prompt and on the position alone, so that they are
    the same whatever else is in the batch and however often it is preempted.
    """

    def __init__(
        self, config: SimulationConfig, clock: Clock, shape: ModelShape
    ) -> None:
        self.shape = shape
        self._config = config
        self._clock = clock
        self._sequences: dict[int, _Sequence] = {}

    def start(self, plan: StepPlan) -> DeferredStep:
        return DeferredStep(self._execute, plan)

    def close(self) -> None:
        self._sequences.clear()

    def _execute(self, plan: StepPlan) -> StepResult:
        for request_id in plan.released:
            self._sequences.pop(request_id, None)
        for admitted in plan.admitted:
            self._sequences[admitted.request_id] = _Sequence(admitted)
        started = self._clock.now()
        self._clock.sleep(self._step_seconds(plan))
        result = StepResult(forward_ns=self._clock.now() - started)
        for request_id, num_tokens in zip(
            plan.request_ids, plan.num_tokens, strict=True
        ):
            sequence = self._sequences[request_id]
            sequence.num_computed += num_tokens
            if sequence.num_computed == sequence.num_tokens:
                self._sample(request_id, sequence, result)
        return result

    def _step_seconds(self, plan: StepPlan) -> float:
        decodes = len(plan.request_ids) - plan.prefill_requests
        return (
            self._config.step_seconds
            + self._config.prefill_token_seconds * plan.prefill_tokens
            + self._config.decode_request_seconds * decodes
            + self._config.context_token_seconds * plan.context_tokens
        )

    def _sample(
        self, request_id: int, sequence: "_Sequence", result: StepResult
    ) -> None:
        token = sequence.next_token(self.shape.vocab_size)
        sequence.num_tokens += 1
        result.tokens[request_id] = [token]
        if sequence.params.logprobs is not None:
            result.logprobs[request_id] = [TokenLogprobs([token], [0.0], 1)]


class _Sequence:
    """A request in the simulated batch."""

    __slots__ = ("banned", "num_computed", "num_tokens", "params", "seed")

    def __init__(self, admitted: AdmittedSequence) -> None:
        self.params: SamplingParams = admitted.params
        self.num_tokens = len(admitted.token_ids)
        self.num_computed = admitted.num_computed_tokens
        self.banned = frozenset(admitted.eos_token_ids)
        prompt = admitted.token_ids[: admitted.num_prompt_tokens]
        self.seed = sum(prompt) + (self.params.seed or 0)

    def next_token(self, vocab_size: int) -> int:
        """A token that does not end the request: lengths come from `max_tokens`."""
        state = (self.seed + self.num_tokens) * _MULTIPLIER + 1442695040888963407
        token = (state >> 33) % vocab_size
        while token in self.banned:
            token = (token + 1) % vocab_size
        return token
