"""Turns a step's logits into tokens, all requests of the step at once.

The order is: penalties, bias and masks, then for requests that are not greedy
temperature, top-k, top-p and min-p. Log-probabilities are those of the unmodified
logits. A token is drawn by inverting the cumulative distribution in the order of the
vocabulary with one number that depends on seed and position only, so that what a
request draws does not depend on its neighbours, nor on drafts that the proposer was
certain of. Drafts with probabilities are sampled by rejection.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hookline.request import TokenLogprobs
from hookline.worker.drafting.verification import DraftLayout
from hookline.worker.input_batch import InputBatch, Int32
from hookline.worker.sampling.randomness import split_mix, uniforms
from hookline.worker.sampling.sampling_state import SamplingState
from hookline_kernels import CPU
from hookline_kernels.inverting import invert_distribution
from hookline_kernels.sampling import ChosenSampling, choose_sampling

Int64 = npt.NDArray[np.int64]
NEGATIVE_INFINITY = float("-inf")
LARGEST_LOGIT = torch.finfo(torch.float32).max


@dataclass(frozen=True, slots=True)
class Samples:
    """Of S requests.

    Attributes:
        token_ids: [S].
        logprobs: By index into S, for requests that asked for them.
    """

    token_ids: Int64
    logprobs: dict[int, TokenLogprobs]


@dataclass(frozen=True, slots=True)
class DrawnDrafts:
    """Drafts that were drawn from a distribution, N of them.

    Attributes:
        sequences: Indices into S, in order: of each request with such drafts all of its
            sequences, which are one more than it has drafts.
        probabilities: [N, vocabulary] float32.
    """

    sequences: Int64
    probabilities: npt.NDArray[np.float32]


class Sampler:
    """Samples for the rows of an input batch.

    What picks tokens is compiled for float32 unless something else was chosen.
    """

    def __init__(
        self,
        batch: InputBatch,
        state: SamplingState,
        chosen: ChosenSampling | None = None,
        device: torch.device = CPU.device,
    ) -> None:
        """Logits are on `device`; batch and state are in main memory."""
        self._batch = batch
        self._state = state
        self._chosen = chosen or choose_sampling(torch.float32)
        self._device = device
        is_here = device.type == "cpu"
        self._tensor = torch.from_numpy if is_here else self._copied

    def sample(
        self,
        logits: torch.Tensor,
        rows: Int64,
        ends: Int64 | None = None,
        drawn: DrawnDrafts | None = None,
        nodes: Int64 | None = None,
    ) -> Samples:
        """Draws one token for each of S sequences.

        Args:
            logits: [S, vocabulary]; overwritten.
            rows: [S] row of each one's request.
            ends: [S] tokens before the one to draw; all that the row has if None. What
                a row holds beyond that are drafts.
            drawn: Drafts with probabilities.
            nodes: [S] of each one's tree of drafts, behind which it is drawn; None if
                there are no trees.
        """
        if ends is None:
            ends = self._batch.num_tokens[rows]
        if not self._state.needs_change[rows].any():
            token_ids = self._choose(logits, rows, ends, drawn)
            return Samples(token_ids.cpu().numpy(), {})
        logits = logits.float()
        wanted = np.flatnonzero(self._state.num_logprobs[rows] >= 0)
        raw = logits[self._tensor(wanted)].log_softmax(-1) if len(wanted) else None
        self._apply_penalties(logits, rows, ends, nodes)
        self._apply_constraints(logits, rows, ends, nodes)
        token_ids = self._choose(logits, rows, ends, drawn)
        logprobs = self._logprobs(raw, wanted, rows, token_ids)
        return Samples(token_ids.cpu().numpy(), logprobs)

    def _choose(
        self, logits: torch.Tensor, rows: Int64, ends: Int64, drawn: DrawnDrafts | None
    ) -> torch.Tensor:
        """What is drawn from the target, but for drafts with probabilities."""
        token_ids = self._draw_each(logits, rows, ends)
        if drawn is not None:
            self._reject(logits, rows, ends, drawn, token_ids)
        return token_ids

    def _draw_each(
        self, logits: torch.Tensor, rows: Int64, ends: Int64
    ) -> torch.Tensor:
        """The likeliest token of greedy rows, a drawn one of the others.

        Returns:
            [S] int64 beside the logits.
        """
        is_random = self._state.temperature[rows] > 0
        is_filtered = is_random & self._state.has_filters[rows]
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
                at = self._tensor(indices)
                token_ids[at] = choose(logits[at], rows[indices], ends[indices])
        return token_ids

    def _best(self, logits: torch.Tensor, _rows: Int64, _ends: Int64) -> torch.Tensor:
        return self._chosen.argmax(logits)

    def _reject(
        self,
        logits: torch.Tensor,
        rows: Int64,
        ends: Int64,
        drawn: DrawnDrafts,
        token_ids: torch.Tensor,
    ) -> None:
        """Puts the outcome of rejection sampling in the place of what was drawn."""
        indices = drawn.sequences
        chosen, behind = rows[indices], ends[indices]
        layout = DraftLayout(chosen)
        at, first = layout.is_draft, layout.firsts
        drafts = self._batch.token_ids[chosen[at], behind[at]].astype(np.int64)
        verified = self._chosen.reject(
            self._tensor(drafts),
            self._tensor(layout.starts),
            self._tensor(drawn.probabilities),
            self._probabilities(logits[self._tensor(indices)], chosen),
            accept_points=self._tensor(
                self._uniforms(chosen[at], behind[at], accepting=True)
            ),
            next_points=self._points(chosen[first], behind[first]),
        )
        settled, tokens = layout.settle(
            drafts,
            verified.num_accepted.cpu().numpy(),
            verified.next_tokens.cpu().numpy(),
        )
        token_ids[self._tensor(indices[settled])] = self._tensor(tokens)

    def _logprobs(
        self,
        raw: torch.Tensor | None,
        wanted: Int64,
        rows: Int64,
        token_ids: torch.Tensor,
    ) -> dict[int, TokenLogprobs]:
        if raw is None:
            return {}
        counts = self._state.num_logprobs[rows[wanted]]
        chosen = token_ids[self._tensor(wanted)]
        entries = top_logprobs(raw, chosen, counts.tolist())
        return dict(zip(wanted.tolist(), entries, strict=True))

    def _draw(self, logits: torch.Tensor, rows: Int64, ends: Int64) -> torch.Tensor:
        temperatures = self._tensor(self._state.temperature[rows])
        return self._chosen.draw(logits, temperatures, self._points(rows, ends))

    def _draw_filtered(
        self, logits: torch.Tensor, rows: Int64, ends: Int64
    ) -> torch.Tensor:
        points = self._points(rows, ends)
        if (draw := self._chosen.draw_filtered) is not None:
            temperatures = self._tensor(self._state.temperature[rows])
            top_k, top_p, min_p = self._filters(rows)
            return draw(
                logits, temperatures, points, top_k=top_k, top_p=top_p, min_p=min_p
            )
        return invert_distribution(self._probabilities(logits, rows), points)

    def _probabilities(self, logits: torch.Tensor, rows: Int64) -> torch.Tensor:
        """[S, vocabulary] float32: what is drawn from, of rows that are not greedy."""
        logits = logits.float()
        logits = logits - logits.amax(-1, keepdim=True)  # so that none overflows
        logits /= self._tensor(self._state.temperature[rows])[:, None]
        if self._state.has_filters[rows].any():
            logits = keep_likeliest(logits, *self._filters(rows))
        return logits.softmax(-1)

    def _filters(self, rows: Int64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Top-k, top-p and min-p: [S] each."""
        state = self._state
        top_k, top_p, min_p = state.top_k[rows], state.top_p[rows], state.min_p[rows]
        return self._tensor(top_k), self._tensor(top_p), self._tensor(min_p)

    def _copied(self, array: npt.NDArray[Any]) -> torch.Tensor:
        """On the device, without waiting for it."""
        return torch.from_numpy(array).to(self._device, non_blocking=True)

    def _points(self, rows: Int64, ends: Int64) -> torch.Tensor:
        """[S] where in its distribution each token lies."""
        return self._tensor(self._uniforms(rows, ends))

    def _uniforms(
        self, rows: Int64, ends: Int64, *, accepting: bool = False
    ) -> npt.NDArray[np.float64]:
        """[S] numbers of each position; others for accepting what was drawn there."""
        positions = ends - self._batch.num_prompt_tokens[rows]
        seeds = self._state.seeds[rows]
        return uniforms(split_mix(~seeds) if accepting else seeds, positions)

    def _apply_penalties(
        self, logits: torch.Tensor, rows: Int64, ends: Int64, nodes: Int64 | None = None
    ) -> None:
        indices = np.flatnonzero(self._state.has_penalties[rows])
        if not len(indices):
            return
        state, chosen = self._state, rows[indices]
        at = self._tensor(indices)
        part = logits[at]
        tokens = self._batch.histories(
            chosen, ends[indices], None if nodes is None else nodes[indices]
        )
        counts, seen = self._count_tokens(
            tokens, chosen, ends[indices], logits.shape[1]
        )
        repetition = self._tensor(state.repetition[chosen])[:, None]
        scaled = torch.where(part > 0, part / repetition, part * repetition)
        scaled = scaled.clamp(-LARGEST_LOGIT, LARGEST_LOGIT)
        part = torch.where(seen, scaled, part)
        part -= counts * self._tensor(state.frequency[chosen])[:, None]
        part -= (counts > 0) * self._tensor(state.presence[chosen])[:, None]
        logits[at] = part

    def _count_tokens(
        self, histories: Int32, rows: Int64, num_tokens: Int64, vocab_size: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Output counts [R, vocabulary] float32, and what prompt or output holds."""
        tokens = self._tensor(histories.astype(np.int64))
        at = torch.arange(tokens.shape[1], device=self._device)[None, :]
        ends = self._tensor(num_tokens)[:, None]
        starts = self._tensor(self._batch.num_prompt_tokens[rows])[:, None]
        counts = torch.zeros(len(rows), vocab_size, device=self._device)
        counts.scatter_add_(1, tokens, ((at >= starts) & (at < ends)).float())
        seen = torch.zeros_like(counts)
        seen.scatter_add_(1, tokens, (at < ends).float())
        return counts, seen > 0

    def _apply_constraints(
        self, logits: torch.Tensor, rows: Int64, ends: Int64, nodes: Int64 | None = None
    ) -> None:
        """Bias and masks; only rows that have any are looked at."""
        for index in np.flatnonzero(self._state.has_constraints[rows]).tolist():
            row = int(rows[index])
            part = logits[index]
            if biases := self._state.biases[row]:
                summands = np.fromiter(biases.values(), np.float32, len(biases))
                part[list(biases)] += self._tensor(summands)
            if (allowed := self._state.allowed[row]) is not None:
                kept = part[list(allowed)].clone()
                part.fill_(NEGATIVE_INFINITY)
                part[list(allowed)] = kept
            node = 0 if nodes is None else int(nodes[index])
            if banned := self._banned(row, int(ends[index]), node):
                before = part[banned]
                part[banned] = NEGATIVE_INFINITY
                if bool(part.isneginf().all()):  # nothing else is allowed
                    part[banned] = before

    def _banned(self, row: int, end: int, node: int) -> list[int]:
        """What must not be the token behind the first `end` ones, up to a node."""
        output = end - int(self._batch.num_prompt_tokens[row])
        banned: list[int] = []
        if output + 1 < self._state.min_tokens[row]:
            banned += self._state.held_back[row]
        if not (bad_words := self._state.bad_words[row]):
            return banned
        history = self._batch.history(row, end, node)
        for *head, last in bad_words:
            if output >= len(head) and history[end - len(head) :].tolist() == head:
                banned.append(last)
        return banned


def keep_likeliest(
    logits: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> torch.Tensor:
    """Sets to −∞ what the three filters drop; equally likely tokens stay together.

    Args:
        logits: [R, vocabulary], divided by the temperature.
        top_k: [R] int64, the vocabulary's size where it is off.
        top_p: [R] float32, 1 where it is off.
        min_p: [R] float32, 0 where it is off.
    """
    vocab_size = logits.shape[-1]
    threshold = logits.new_full((len(logits), 1), NEGATIVE_INFINITY)
    if bool((min_p > 0).any()):
        threshold = logits.max(-1, keepdim=True).values + min_p.log()[:, None]
    uses_top_p = bool((top_p < 1).any())
    if uses_top_p or bool((top_k < vocab_size).any()):
        width = vocab_size if uses_top_p else int(top_k[top_k < vocab_size].max())
        ordered = logits.topk(width, dim=-1).values
        last = (top_k.clamp(max=width) - 1)[:, None]
        floor = ordered.gather(1, last)
        floor = torch.where((top_k < vocab_size)[:, None], floor, NEGATIVE_INFINITY)
        if uses_top_p:
            beyond = torch.arange(width, device=logits.device)[None, :] > last
            mass = ordered.masked_fill(beyond, NEGATIVE_INFINITY).softmax(-1)
            before = mass.cumsum(-1) - mass
            kept = (before < top_p[:, None]) & ~beyond
            nucleus = ordered.gather(1, kept.sum(-1, keepdim=True) - 1)
            is_on = (top_p < 1)[:, None]
            floor = torch.where(is_on, torch.maximum(floor, nucleus), floor)
        threshold = torch.maximum(threshold, floor)
    return logits.masked_fill(logits < threshold, NEGATIVE_INFINITY)


def top_logprobs(
    logprobs: torch.Tensor, token_ids: torch.Tensor, counts: list[int]
) -> list[TokenLogprobs]:
    """For each row the token's own log-probability and its `count` likeliest.

    Args:
        logprobs: [R, vocabulary].
        token_ids: [R] int64, beside them.
        counts: R numbers; 0 gives the token alone.
    """
    own = logprobs.gather(1, token_ids[:, None])
    ranks = (logprobs > own).sum(-1).add_(1).tolist()
    best = logprobs.topk(max(*counts, 1), dim=-1)
    return [
        TokenLogprobs([token, *ids[:count]], [mine, *values[:count]], rank)
        for token, mine, ids, values, rank, count in zip(
            token_ids.tolist(),
            own[:, 0].tolist(),
            best.indices.tolist(),
            best.values.tolist(),
            ranks,
            counts,
            strict=True,
        )
    ]
