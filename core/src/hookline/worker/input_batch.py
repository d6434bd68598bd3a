"""The worker's picture of the batch: one row a request, columns as arrays.

Rows are filled when a request is admitted and changed in place afterwards, so that a
step's inputs are made by array operations alone.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hookline.sampling_params import SamplingParams
from hookline.step.plan import AdmittedSequence, StepPlan
from hookline.worker.drafting.draft_trees import TreeArrays
from hookline.worker.drafting.verification import Verified

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInputs:
    """One step as a flattened batch of T tokens of B requests.

    Attributes:
        rows: [B] row of each request.
        token_ids: [T].
        positions: [T] in their sequences.
        slots: [T] where each token's K and V go: block × block size + offset.
        query_lens: [B] tokens computed now, drafts included; the ones come first, then
            those with drafts.
        seq_lens: [B] tokens in the cache after the step, likewise.
        query_starts: [B + 1] running sum of `query_lens`.
        block_tables: [B, most blocks of any].
        is_sampling: [B] whether the request's last token is computed.
        num_drafts: [B]; None if no request has any.
        samples: Where tokens are sampled.
        nodes: [T] of its tree of drafts, 0 of a token that is no draft; None if no
            request has such a tree.
    """

    rows: Int64
    token_ids: Int64
    positions: Int64
    slots: Int64
    query_lens: Int64
    seq_lens: Int64
    query_starts: Int64
    block_tables: Int32
    is_sampling: npt.NDArray[np.bool_]
    num_drafts: Int64 | None
    samples: "SamplePlaces"
    nodes: Int64 | None = None


@dataclass(frozen=True, slots=True)
class SamplePlaces:
    """Behind each request's last token, and behind the one before each of its drafts.

    Attributes:
        rows: [S] of the requests; those of a request are adjacent.
        ends: [S] tokens of the sequence before the sampled one; behind a node of a
            tree, of its path.
        indices: [S] of the T tokens the one before the sampled one.
    """

    rows: Int64
    ends: Int64
    indices: Int64


class InputBatch:
    """Rows for up to `max_num_seqs` requests of up to `max_model_len` tokens.

    Attributes:
        token_ids: [rows, max_model_len] prompt and output, and behind them the drafts
            of the step under way.
        num_tokens: [rows].
        num_prompt_tokens: [rows].
        num_computed: [rows].
        params: By row; None where the row is free.
        request_ids: By row.
    """

    def __init__(
        self,
        max_num_seqs: int,
        max_model_len: int,
        block_size: int,
        tree: TreeArrays | None = None,
    ) -> None:
        """With a tree, drafts are in its order; else they are chains."""
        self._block_size = block_size
        self._tree = tree
        max_blocks = -(-max_model_len // block_size)
        self.token_ids: Int32 = np.zeros((max_num_seqs, max_model_len), np.int32)
        self.num_tokens: Int64 = np.zeros(max_num_seqs, np.int64)
        self.num_prompt_tokens: Int64 = np.zeros(max_num_seqs, np.int64)
        self.num_computed: Int64 = np.zeros(max_num_seqs, np.int64)
        self._block_tables: Int32 = np.zeros((max_num_seqs, max_blocks), np.int32)
        self._num_blocks: Int64 = np.zeros(max_num_seqs, np.int64)
        self.params: list[SamplingParams | None] = [None] * max_num_seqs
        self.request_ids: list[int] = [0] * max_num_seqs
        self._free_rows = list(range(max_num_seqs - 1, -1, -1))
        self._row_of: dict[int, int] = {}

    def release(self, request_id: int) -> None:
        """Frees a request's row."""
        row = self._row_of.pop(request_id)
        self.params[row] = None
        self._free_rows.append(row)

    def admit(self, sequence: AdmittedSequence) -> int:
        """Fills a free row and returns it."""
        row = self._free_rows.pop()
        self._row_of[sequence.request_id] = row
        self.request_ids[row] = sequence.request_id
        count = len(sequence.token_ids)
        self.token_ids[row, :count] = sequence.token_ids
        self.num_tokens[row] = count
        self.num_prompt_tokens[row] = sequence.num_prompt_tokens
        self.num_computed[row] = sequence.num_computed_tokens
        self.params[row] = sequence.params
        self._num_blocks[row] = 0
        self._add_blocks(row, sequence.block_ids)
        return row

    def block_ids(self, row: int) -> Int32:
        """A request's blocks, in order; a copy."""
        return self._block_tables[row, : self._num_blocks[row]].copy()

    def grow(self, plan: StepPlan) -> None:
        """Enters the blocks that the plan added to requests of the batch."""
        for request_id, block_ids in plan.new_block_ids.items():
            self._add_blocks(self._row_of[request_id], block_ids)

    def _add_blocks(self, row: int, block_ids: object) -> None:
        blocks = np.asarray(block_ids, np.int32)
        start = self._num_blocks[row]
        self._block_tables[row, start : start + len(blocks)] = blocks
        self._num_blocks[row] += len(blocks)

    def inputs(self, plan: StepPlan) -> StepInputs:
        """Flattens the plan's requests; of the batch only drafts are changed."""
        rows = np.array([self._row_of[key] for key in plan.request_ids], np.int64)
        query_lens = np.array(plan.num_tokens, np.int64)
        computed = self.num_computed[rows]
        query_starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(query_lens, out=query_starts[1:])
        seq_lens = computed + query_lens
        is_sampling = seq_lens >= self.num_tokens[rows]
        samples = SamplePlaces(
            rows[is_sampling], seq_lens[is_sampling], query_starts[1:][is_sampling] - 1
        )
        num_drafts = None
        if plan.drafts:
            self._write_drafts(plan)
            counts = [len(plan.drafts.get(key, ())) for key in plan.request_ids]
            num_drafts = np.array(counts, np.int64)
            samples = _before_each(samples, num_drafts[is_sampling])
        owner = np.repeat(np.arange(len(rows)), query_lens)
        places = np.arange(query_starts[-1]) + (computed - query_starts[:-1])[owner]
        token_rows = rows[owner]
        blocks = self._block_tables[token_rows, places // self._block_size]
        positions, nodes = places, None
        if (tree := self._tree) is not None and num_drafts is not None:
            is_drafted = (num_drafts > 0)[owner]
            nodes = np.where(is_drafted, places - computed[owner], 0)
            positions = places - tree.num_unseen[nodes]
            ends = samples.ends - tree.num_unseen[nodes[samples.indices]]
            samples = dataclasses.replace(samples, ends=ends)
        width = -(-int(seq_lens.max()) // self._block_size)
        return StepInputs(
            rows=rows,
            token_ids=self.token_ids[token_rows, places].astype(np.int64),
            positions=positions,
            slots=blocks.astype(np.int64) * self._block_size
            + places % self._block_size,
            query_lens=query_lens,
            seq_lens=seq_lens,
            query_starts=query_starts,
            block_tables=self._block_tables[rows, :width],
            is_sampling=is_sampling,
            num_drafts=num_drafts,
            samples=samples,
            nodes=nodes,
        )

    def history(self, row: int, end: int, node: int) -> Int32:
        """[end] the tokens of a row up to a node of its tree; of node 0, a view."""
        tokens = self.token_ids[row, :end]
        if node:
            assert self._tree is not None
            path = self._tree.paths[node]
            first = end - len(path)
            tokens = np.append(tokens[:first], self.token_ids[row, first - 1 + path])
        return tokens

    def histories(self, rows: Int64, ends: Int64, nodes: Int64 | None) -> Int32:
        """[S, most of `ends`] the same of S nodes; what is behind an end is anything.

        Args:
            rows: [S].
            ends: [S].
            nodes: [S]; None if each is node 0.
        """
        tokens = self.token_ids[rows, : ends.max()]
        if nodes is not None:
            for index in np.flatnonzero(nodes).tolist():
                row, end, node = (int(each[index]) for each in (rows, ends, nodes))
                tokens[index, :end] = self.history(row, end, node)
        return tokens

    def advance(self, inputs: StepInputs, sampled: Int64) -> None:
        """Notes the step as computed and appends the sampled tokens.

        Args:
            inputs: The step, without drafts.
            sampled: [number of sampling requests], in the order of `inputs`.
        """
        self.num_computed[inputs.rows] += inputs.query_lens
        rows = inputs.samples.rows
        self._append(rows, self.num_tokens[rows], sampled)
        self.num_tokens[rows] += 1

    def advance_verified(
        self, inputs: StepInputs, sampled: Int64, verified: Verified
    ) -> None:
        """Notes a step with drafts as computed and appends the tokens that are kept.

        Args:
            inputs: The step.
            sampled: [S] at `inputs.samples`.
            verified: What of them is kept.
        """
        is_chunk = ~inputs.is_sampling
        self.num_computed[inputs.rows[is_chunk]] += inputs.query_lens[is_chunk]
        rows, ends = inputs.samples.rows, inputs.samples.ends
        kept = verified.is_kept
        rows, ends = rows[kept], ends[kept]
        self._append(rows, ends, sampled[kept])
        last = np.cumsum(verified.counts) - 1
        rows, ends = rows[last], ends[last]
        self.num_tokens[rows] = ends + 1
        self.num_computed[rows] = ends
        # As the scheduler does: blocks that only refused drafts were written to go.
        self._num_blocks[rows] = np.minimum(
            self._num_blocks[rows], -(-ends // self._block_size)
        )

    def _append(self, rows: Int64, ends: Int64, token_ids: Int64) -> None:
        room = ends < self.token_ids.shape[1]
        self.token_ids[rows[room], ends[room]] = token_ids[room]

    def _write_drafts(self, plan: StepPlan) -> None:
        for request_id, drafts in plan.drafts.items():
            row = self._row_of[request_id]
            end = self.num_tokens[row]
            self.token_ids[row, end : end + len(drafts)] = drafts


def _before_each(samples: SamplePlaces, num_drafts: Int64) -> SamplePlaces:
    """The places before the last, too, of requests with drafts: [R] numbers of them."""
    counts = num_drafts + 1
    last = np.repeat(np.cumsum(counts), counts) - 1
    behind = np.arange(len(last)) - last  # 0 at each request's last one
    return SamplePlaces(
        np.repeat(samples.rows, counts),
        np.repeat(samples.ends, counts) + behind,
        np.repeat(samples.indices, counts) + behind,
    )


def one_by_one(inputs: StepInputs) -> StepInputs:
    """A request with drafts as a sequence for each of its tokens, over the same blocks.

    Keys and values of a step are written before any are read, so each of them sees what
    is before it, as in so many decodes. For attention alone: rows are not.
    """
    if inputs.num_drafts is None:
        return inputs
    counts = inputs.num_drafts + 1
    last = np.repeat(np.cumsum(counts), counts) - 1
    behind = np.arange(len(last)) - last
    is_several = inputs.num_drafts > 0
    return dataclasses.replace(
        inputs,
        rows=np.repeat(inputs.rows, counts),
        query_lens=np.repeat(np.where(is_several, 1, inputs.query_lens), counts),
        seq_lens=np.repeat(inputs.seq_lens, counts) + behind,
        block_tables=np.repeat(inputs.block_tables, counts, axis=0),
    )
