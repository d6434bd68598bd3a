"""Draws a token for each row of logits, whose requests ask for different things.

A token is drawn by inverting the cumulative distribution in the order of the vocabulary
with one number that depends on seed and position only: a request's tokens depend
neither on its neighbours nor on drafts proposed with certainty.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hookline_kernels.drawing import NO_TOKEN, split_mix, uniforms
from hookline_kernels.platform import CPU
from hookline_kernels.rejection import DraftLayout
from hookline_kernels.sampling import ChosenSampling, choose_sampling, distributions

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]
_Filters = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

_LEAST = float(np.finfo(np.float32).tiny)
_LARGEST = float(np.finfo(np.float32).max)


def positive_float32(value: float) -> float:
    """Clamps a positive number so that float32 rounds it neither to 0 nor infinity."""
    return min(max(value, _LEAST), _LARGEST)


class DrawingColumns:
    """How requests are sampled, by batch row; columns of free rows are stale.

    Attributes:
        temperature: 0 means greedy.
        top_k: The vocabulary's size where it is off.
        top_p: 1 where it is off.
        min_p: 0 where it is off.
        seeds: Of the random numbers.
        has_filters: Whether top-k, top-p or min-p is on.
    """

    def __init__(self, num_rows: int, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self.temperature: Float32 = np.zeros(num_rows, np.float32)
        self.top_k: Int64 = np.full(num_rows, vocab_size, np.int64)
        self.top_p: Float32 = np.ones(num_rows, np.float32)
        self.min_p: Float32 = np.zeros(num_rows, np.float32)
        self.seeds = np.zeros(num_rows, np.uint64)
        self.has_filters = np.zeros(num_rows, np.bool_)

    def fill(
        self,
        row: int,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: np.uint64 | int = 0,
    ) -> None:
        """Fills a row; by default it is greedy. `top_k` None or 0 turns it off."""
        greedy = temperature == 0
        self.temperature[row] = 0.0 if greedy else positive_float32(temperature)
        self.top_k[row] = min(top_k or self._vocab_size, self._vocab_size)
        self.top_p[row] = positive_float32(top_p)
        self.min_p[row] = min_p
        self.seeds[row] = seed
        self.has_filters[row] = (
            self.top_k[row] < self._vocab_size
            or self.top_p[row] < 1
            or self.min_p[row] > 0
        )


class RowDrawing:
    """Draws for the rows of a batch."""

    def __init__(
        self,
        columns: DrawingColumns,
        token_ids: Int32,
        prompt_lens: Int64,
        chosen: ChosenSampling | None = None,
        device: torch.device = CPU.device,
    ) -> None:
        """Draws for the requests of these rows.

        Args:
            columns: How they are sampled.
            token_ids: [rows, longest] their tokens, and drafts behind them.
            prompt_lens: [rows] lengths of their prompts.
            chosen: Kernels that pick tokens; None chooses those for float32.
            device: Device of the logits.
        """
        self._columns = columns
        self._token_ids, self._prompt_lens = token_ids, prompt_lens
        self._chosen = chosen or choose_sampling(torch.float32)
        self._device = device
        self.tensor = torch.from_numpy if device.type == "cpu" else self._copied

    def draw(self, logits: torch.Tensor, rows: Int64, ends: Int64) -> torch.Tensor:
        """Samples the likeliest token of greedy rows and draws those of the others.

        Args:
            logits: [S, vocabulary].
            rows: [S] batch row of each.
            ends: [S] number of tokens before the sampled one.

        Returns:
            [S] int64 on the logits' device; `NO_TOKEN` without a distribution.
        """
        columns = self._columns
        is_random = columns.temperature[rows] > 0
        if not is_random.any():
            return self._chosen.argmax(logits)
        is_filtered = is_random & columns.has_filters[rows]
        token_ids = torch.empty(len(rows), dtype=torch.int64, device=self._device)
        for chosen, choose in (
            (~is_random, self._best),
            (is_random & ~is_filtered, self._draw),
            (is_filtered, self._draw_filtered),
        ):
            indices = np.flatnonzero(chosen)
            if len(indices) == len(rows):
                return choose(logits, rows, ends)
            if len(indices):
                at = self.tensor(indices)
                token_ids[at] = choose(logits[at], rows[indices], ends[indices])
        return token_ids

    def reject(  # noqa: PLR0917 - as `draw`, and two sides of drafts
        self,
        logits: torch.Tensor,
        rows: Int64,
        ends: Int64,
        sequences: Int64,
        probabilities: Float32,
        token_ids: torch.Tensor,
    ) -> None:
        """Replaces drawn tokens by the outcome of rejection sampling.

        Args:
            logits: As in `draw`.
            rows: As in `draw`.
            ends: As in `draw`.
            sequences: Sorted indices into S: for each request with such drafts all its
                positions, one more than it has drafts.
            probabilities: [N, vocabulary] that the N drafts were drawn from.
            token_ids: What `draw` has returned.
        """
        chosen, behind = rows[sequences], ends[sequences]
        is_none, columns = token_ids < 0, self._columns
        layout = DraftLayout(chosen)
        at, first = layout.is_draft, layout.firsts
        drafts = self._token_ids[chosen[at], behind[at]].astype(np.int64)
        filters = None
        if columns.has_filters[chosen].any():
            filters = self._filters(chosen)
        verified = self._chosen.reject(
            self.tensor(drafts),
            self.tensor(layout.starts),
            self.tensor(probabilities),
            distributions(
                logits[self.tensor(sequences)], self._temperatures(chosen), filters
            ),
            accept_points=self._points(chosen[at], behind[at], accepting=True),
            next_points=self._points(chosen[first], behind[first]),
        )
        settled, tokens = layout.settle(
            drafts,
            verified.num_accepted.cpu().numpy(),
            verified.next_tokens.cpu().numpy(),
        )
        token_ids[self.tensor(sequences[settled])] = self.tensor(tokens)
        token_ids.masked_fill_(is_none, NO_TOKEN)

    def _best(self, logits: torch.Tensor, _rows: Int64, _ends: Int64) -> torch.Tensor:
        return self._chosen.argmax(logits)

    def _draw(self, logits: torch.Tensor, rows: Int64, ends: Int64) -> torch.Tensor:
        temperatures = self._temperatures(rows)
        return self._chosen.draw(logits, temperatures, self._points(rows, ends))

    def _draw_filtered(
        self, logits: torch.Tensor, rows: Int64, ends: Int64
    ) -> torch.Tensor:
        temperatures, points = self._temperatures(rows), self._points(rows, ends)
        top_k, top_p, min_p = self._filters(rows)
        return self._chosen.draw_filtered(
            logits, temperatures, points, top_k=top_k, top_p=top_p, min_p=min_p
        )

    def _temperatures(self, rows: Int64) -> torch.Tensor:
        return self.tensor(self._columns.temperature[rows])

    def _filters(self, rows: Int64) -> _Filters:
        """Returns top-k, top-p and min-p: [S] each."""
        columns = self._columns
        sides = columns.top_k[rows], columns.top_p[rows], columns.min_p[rows]
        return self.tensor(sides[0]), self.tensor(sides[1]), self.tensor(sides[2])

    def _points(
        self, rows: Int64, ends: Int64, *, accepting: bool = False
    ) -> torch.Tensor:
        """Returns where in its cumulative distribution each token lies: [S].

        These are [S] numbers in [0, 1); others for accepting drafts.
        """
        seeds = self._columns.seeds[rows]
        seeds = split_mix(~seeds) if accepting else seeds
        return self.tensor(uniforms(seeds, ends - self._prompt_lens[rows]))

    def _copied(self, array: npt.NDArray[Any]) -> torch.Tensor:
        """Copies an array to the device without waiting for it."""
        return torch.from_numpy(array).to(self._device, non_blocking=True)
