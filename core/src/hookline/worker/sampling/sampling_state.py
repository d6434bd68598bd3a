"""Each row's sampling parameters as columns, for sampling by array operations."""

import numpy as np
import numpy.typing as npt

from hookline.sampling_params import SamplingParams
from hookline.step.plan import AdmittedSequence
from hookline.worker.sampling.randomness import split_mix

Float32 = npt.NDArray[np.float32]
_LEAST = float(np.finfo(np.float32).tiny)
_LARGEST = float(np.finfo(np.float32).max)
_NO_SEQUENCES: tuple[tuple[int, ...], ...] = ()


class SamplingState:
    """Columns by row; rows that nobody holds keep stale values that nobody reads.

    Attributes:
        temperature: 0 means greedy.
        top_k: The vocabulary's size where it is off.
        top_p: 1 where it is off.
        min_p: 0 where it is off.
        repetition: 1 where it is off.
        presence: 0 where it is off.
        frequency: 0 where it is off.
        seeds: Given, or made of the engine's seed and the request's id.
        num_logprobs: −1 where none are wanted.
        has_penalties: Any of the three penalties is on.
        has_constraints: Bias, allowed or bad words, or stop tokens held back.
        has_filters: Any of top-k, top-p and min-p is on.
        needs_change: Penalties or constraints change the logits, or log-probabilities
            of them are wanted.
        biases: {token id: bias} of constrained rows.
        allowed: Token ids of constrained rows, None where all are.
        held_back: Stop tokens of rows with `min_tokens`.
        bad_words: Token sequences of constrained rows.
    """

    def __init__(self, max_num_seqs: int, vocab_size: int, seed: int) -> None:
        self._vocab_size = vocab_size
        self._engine_seed = seed
        self.temperature: Float32 = np.zeros(max_num_seqs, np.float32)
        self.top_k = np.full(max_num_seqs, vocab_size, np.int64)
        self.top_p: Float32 = np.ones(max_num_seqs, np.float32)
        self.min_p: Float32 = np.zeros(max_num_seqs, np.float32)
        self.repetition: Float32 = np.ones(max_num_seqs, np.float32)
        self.presence: Float32 = np.zeros(max_num_seqs, np.float32)
        self.frequency: Float32 = np.zeros(max_num_seqs, np.float32)
        self.seeds = np.zeros(max_num_seqs, np.uint64)
        self.num_logprobs = np.full(max_num_seqs, -1, np.int64)
        self.has_penalties = np.zeros(max_num_seqs, np.bool_)
        self.has_constraints = np.zeros(max_num_seqs, np.bool_)
        self.has_filters = np.zeros(max_num_seqs, np.bool_)
        self.needs_change = np.zeros(max_num_seqs, np.bool_)
        self.min_tokens = np.zeros(max_num_seqs, np.int64)
        self.biases: list[dict[int, float]] = [{}] * max_num_seqs
        self.allowed: list[tuple[int, ...] | None] = [None] * max_num_seqs
        self.held_back: list[tuple[int, ...]] = [()] * max_num_seqs
        self.bad_words = [_NO_SEQUENCES] * max_num_seqs

    def admit(self, row: int, sequence: AdmittedSequence) -> None:
        params = sequence.params
        greedy = params.is_greedy
        self.temperature[row] = 0.0 if greedy else _float32(params.temperature)
        self.top_k[row] = min(params.top_k or self._vocab_size, self._vocab_size)
        self.top_p[row] = _float32(params.top_p)
        self.min_p[row] = params.min_p
        self.repetition[row] = _float32(params.repetition_penalty)
        self.presence[row] = params.presence_penalty
        self.frequency[row] = params.frequency_penalty
        self.seeds[row] = self._seed(params, sequence.request_id)
        self.num_logprobs[row] = -1 if params.logprobs is None else params.logprobs
        self.has_penalties[row] = params.has_penalties
        self.min_tokens[row] = params.min_tokens
        self.biases[row] = params.logit_bias
        self.allowed[row] = params.allowed_token_ids
        self.held_back[row] = sequence.eos_token_ids if params.min_tokens else ()
        self.bad_words[row] = sequence.bad_words_token_ids
        self.has_constraints[row] = bool(
            params.logit_bias
            or params.allowed_token_ids
            or self.held_back[row]
            or sequence.bad_words_token_ids
        )
        self.has_filters[row] = (
            self.top_k[row] < self._vocab_size
            or self.top_p[row] < 1
            or self.min_p[row] > 0
        )
        self.needs_change[row] = (
            self.has_penalties[row]
            or self.has_constraints[row]
            or params.logprobs is not None
        )

    def _seed(self, params: SamplingParams, request_id: int) -> np.uint64:
        if params.seed is not None:
            return np.uint64(params.seed % 2**64)
        pair = (self._engine_seed % 2**32 << 32) ^ request_id
        return np.uint64(split_mix(np.array([pair % 2**64], np.uint64))[0])


def _float32(value: float) -> float:
    """A number above 0 as it fits float32: never rounded to 0 or infinity."""
    return min(max(value, _LEAST), _LARGEST)
