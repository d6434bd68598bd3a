"""Sampling parameters of the batch as columns, for sampling by array operations."""

import numpy as np

from hookline.engine.worker.sampling.logits_processors import LogitsProcessors
from hookline.step import AdmittedSequence
from hookline_kernels.drawing import split_mix
from hookline_kernels.row_drawing import DrawingColumns


class SamplingState:
    """Columns by batch row; those of free rows are stale and never read.

    Attributes:
        processors: The logits processors.
        drawing: How tokens are drawn.
        num_logprobs: −1 where none are requested.
        needs_change: Whether a logits processor applies or log-probabilities are
            requested.
    """

    def __init__(
        self,
        max_num_seqs: int,
        vocab_size: int,
        seed: int,
        processors: LogitsProcessors | None = None,
    ) -> None:
        """Creates the state of an empty batch; without `processors`, none apply."""
        self._vocab_size = vocab_size
        self._engine_seed = seed
        self.processors = processors or LogitsProcessors(max_num_seqs)
        self.drawing = DrawingColumns(max_num_seqs, vocab_size)
        self.num_logprobs = np.full(max_num_seqs, -1, np.int64)
        self.needs_change = np.zeros(max_num_seqs, np.bool_)

    def admit(self, row: int, sequence: AdmittedSequence) -> None:
        """Fills a request's row.

        Raises:
            ValueError: A token id is not in the vocabulary. Processors that write to
                one flat array of logits would write to another request's.
        """
        self._check_ids(sequence)
        params = sequence.params
        self.drawing.fill(
            row,
            temperature=params.temperature,
            top_k=params.top_k,
            top_p=params.top_p,
            min_p=params.min_p,
            seed=self._seed(sequence),
        )
        self.num_logprobs[row] = -1 if params.logprobs is None else params.logprobs
        self.processors.admit(row, sequence)
        has_processors = self.processors.is_active[row]
        self.needs_change[row] = has_processors or params.logprobs is not None

    def reset(self, row: int) -> None:
        """Makes a row greedy, after `admit` has raised an error."""
        self.drawing.fill(row)
        self.num_logprobs[row] = -1
        self.needs_change[row] = False
        self.processors.reset(row)

    def clear_row(self, row: int) -> None:
        """Drops the logits processors' state of a request."""
        self.processors.release(row)

    def close(self) -> None:
        """Ends the logits processors' thread."""
        self.processors.close()

    def _check_ids(self, sequence: AdmittedSequence) -> None:
        params = sequence.params
        for ids in (
            params.logit_bias,
            params.stop_token_ids,
            sequence.eos_token_ids,
            *sequence.bad_words_token_ids,
        ):
            if ids and not (min(ids) >= 0 and max(ids) < self._vocab_size):
                raise ValueError(f"a token id is not below {self._vocab_size}")

    def _seed(self, sequence: AdmittedSequence) -> np.uint64:
        if (seed := sequence.params.seed) is not None:
            return np.uint64((seed + sequence.completion_index) % 2**64)
        pair = (self._engine_seed % 2**32 << 32) ^ sequence.request_id
        return np.uint64(split_mix(np.array([pair % 2**64], np.uint64))[0])
