"""The worker's state of the running requests: a row per request, columns as arrays.

A row is filled when its request is admitted and changed in place afterwards, so that a
step's inputs are made by array operations alone.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hookline.engine.worker.verification import DraftTree
from hookline.sampling_values import SamplingValues
from hookline.step import AdmittedSequence, StepPlan
from hookline_kernels.draft_verification import Verified
from hookline_kernels.runtime.read_only_mirror import make_mirror

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInputs:
    """One step as a flattened batch of T tokens of B requests.

    Attributes:
        rows: [B] row of each request.
        token_ids: [T].
        positions: [T] of each token in its request.
        slots: [T] where each token's K and V go: block × block size + offset.
        query_lens: [B] tokens computed now, drafts included; requests with one token
            come first, then those with drafts.
        seq_lens: [B] tokens in the cache after the step, drafts included.
        query_starts: [B + 1] cumulative sum of `query_lens`.
        block_tables: [B, blocks of the longest request].
        is_sampling: [B] whether the request's last token is computed.
        num_drafts: [B] number of drafts; None if no request has any.
        samples: Places where tokens are sampled.
        nodes: [T] node of each token in its draft tree, 0 if it is not a draft; None if
            no request has a tree.
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
    """The places of S samples: after each request's last token and each draft.

    Attributes:
        rows: [S] row of the request; those of a request are adjacent.
        ends: [S] number of the request's tokens before the sample; in a tree, on the
            node's path.
        indices: [S] index into T of the token before the sample.
    """

    rows: Int64
    ends: Int64
    indices: Int64


class InputBatch:
    """Rows for up to `max_num_seqs` requests of up to `max_model_len` tokens.

    Attributes:
        token_ids: [rows, max_model_len] prompt and output, then the drafts of the
            current step.
        shown_token_ids: The same, read-only for whoever gets it.
        num_tokens: [rows] prompt and output tokens; one more than it will have for a
            request that is a prefill alone, so that nothing is sampled after it.
        num_prompt_tokens: [rows] prompt tokens.
        num_computed: [rows] tokens in the cache.
        params: Sampling parameters by row; None if the row is free.
        request_ids: Request id by row.
        scored_rows: Rows of the requests with `prompt_logprobs`.
    """

    def __init__(
        self,
        max_num_seqs: int,
        max_model_len: int,
        block_size: int,
        tree: DraftTree | None = None,
    ) -> None:
        """Allocates the rows; with a tree, drafts come in its order, else as chains."""
        self._block_size = block_size
        self._tree = tree
        max_blocks = -(-max_model_len // block_size)
        self.token_ids, self.shown_token_ids = make_mirror(max_num_seqs, max_model_len)
        self.num_tokens: Int64 = np.zeros(max_num_seqs, np.int64)
        self.num_prompt_tokens: Int64 = np.zeros(max_num_seqs, np.int64)
        self.num_computed: Int64 = np.zeros(max_num_seqs, np.int64)
        self._block_tables: Int32 = np.zeros((max_num_seqs, max_blocks), np.int32)
        self._num_blocks: Int64 = np.zeros(max_num_seqs, np.int64)
        self.params: list[SamplingValues | None] = [None] * max_num_seqs
        self.request_ids: list[int] = [0] * max_num_seqs
        self.scored_rows: set[int] = set()
        self._free_rows = list(range(max_num_seqs - 1, -1, -1))
        self._row_of: dict[int, int] = {}

    def remove_request(self, request_id: int) -> int:
        """Frees a request's row and returns it."""
        row = self._row_of.pop(request_id)
        self.params[row] = None
        self.scored_rows.discard(row)
        self._free_rows.append(row)
        return row

    def admit(self, sequence: AdmittedSequence) -> int:
        """Fills a free row and returns it."""
        row = self._free_rows.pop()
        self._row_of[sequence.request_id] = row
        self.request_ids[row] = sequence.request_id
        count = len(sequence.token_ids)
        self.token_ids[row, :count] = sequence.token_ids
        self.num_tokens[row] = count + sequence.is_prefill_only
        self.num_prompt_tokens[row] = sequence.num_prompt_tokens
        self.num_computed[row] = sequence.num_computed_tokens
        self.params[row] = sequence.params
        if sequence.params.prompt_logprobs is not None:
            self.scored_rows.add(row)
        self._num_blocks[row] = 0
        self._add_blocks(row, sequence.block_ids)
        return row

    def block_ids(self, row: int) -> Int32:
        """Returns a read-only copy of a request's block ids, in order."""
        own = self._block_tables[row, : self._num_blocks[row]]
        return np.frombuffer(own.tobytes(), np.int32)

    def room_for_drafts(self, row: int) -> int:
        """Returns how many drafts in a row can be of use to a request, or less than 0.

        The step that verifies drafts adds one token to them.
        """
        end: int = self.token_ids.shape[1]
        params = self.params[row]
        if params is not None and params.max_tokens is not None:
            end = min(end, int(self.num_prompt_tokens[row]) + params.max_tokens)
        return end - int(self.num_tokens[row]) - 1

    def learn(self, new_token_ids: Mapping[int, Sequence[int]]) -> None:
        """Appends tokens that another pipeline stage has sampled; comes before `grow`.

        All tokens before the last one are computed by then, accepted drafts included.
        """
        for request_id, token_ids in new_token_ids.items():
            row = self._row_of[request_id]
            start = int(self.num_tokens[row])
            end = start + len(token_ids)
            places = np.arange(start, end)
            rows = np.full(len(places), row)
            self._append(rows, places, np.asarray(token_ids, np.int64))
            self.num_tokens[row] = end
            self.num_computed[row] = end - 1
            self._drop_blocks_behind(row, end - 1)

    def grow(self, plan: StepPlan) -> None:
        """Adds the plan's new blocks to running requests."""
        for request_id, block_ids in plan.new_block_ids.items():
            self._add_blocks(self._row_of[request_id], block_ids)

    def _add_blocks(self, row: int, block_ids: object) -> None:
        blocks = np.asarray(block_ids, np.int32)
        start = self._num_blocks[row]
        self._block_tables[row, start : start + len(blocks)] = blocks
        self._num_blocks[row] += len(blocks)

    def inputs(self, plan: StepPlan) -> StepInputs:
        """Flattens the plan's requests; writes only their drafts into the rows."""
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
        """Returns the [end] tokens of a row up to a tree's node; a view for node 0."""
        tokens = self.token_ids[row, :end]
        if node:
            assert self._tree is not None
            path = self._tree.paths[node]
            first = end - len(path)
            tokens = np.append(tokens[:first], self.token_ids[row, first - 1 + path])
        return tokens

    def histories(self, rows: Int64, ends: Int64, nodes: Int64 | None) -> Int32:
        """Returns the tokens up to S nodes, [S, longest]; undefined after each end.

        Args:
            rows: [S] rows.
            ends: [S] number of tokens.
            nodes: [S] nodes; None if all are node 0.
        """
        tokens = self.token_ids[rows, : ends.max()]
        if nodes is not None:
            for index in np.flatnonzero(nodes).tolist():
                row, end, node = (int(each[index]) for each in (rows, ends, nodes))
                tokens[index, :end] = self.history(row, end, node)
        return tokens

    def advance(self, inputs: StepInputs, sampled: Int64) -> None:
        """Advances past a computed step and appends the sampled tokens.

        Args:
            inputs: The step, without drafts.
            sampled: [S] tokens, at `inputs.samples`.
        """
        self.num_computed[inputs.rows] += inputs.query_lens
        rows = inputs.samples.rows
        self._append(rows, self.num_tokens[rows], sampled)
        self.num_tokens[rows] += 1

    def fill(self, samples: SamplePlaces, ids: Sequence[int], sampled: Int64) -> None:
        """Puts tokens into the places that `advance` has reserved for them.

        Args:
            samples: Their places; a row may have been given to another request since.
            ids: [S] ids of their requests.
            sampled: [S] tokens.
        """
        rows = samples.rows
        kept = np.array([self.request_ids[row] for row in rows.tolist()]) == ids
        self._append(rows[kept], samples.ends[kept], sampled[kept])

    def advance_verified(
        self, inputs: StepInputs, sampled: Int64, verified: Verified
    ) -> None:
        """Advances past a step with drafts and appends the accepted tokens.

        Args:
            inputs: The step.
            sampled: [S] tokens, at `inputs.samples`.
            verified: Which of them are kept.
        """
        self.advance_chunks(inputs)
        rows, ends = inputs.samples.rows, inputs.samples.ends
        kept = verified.is_kept
        rows, ends = rows[kept], ends[kept]
        self._append(rows, ends, sampled[kept])
        last = np.cumsum(verified.counts) - 1
        rows, ends = rows[last], ends[last]
        self.num_tokens[rows] = ends + 1
        self.num_computed[rows] = ends
        self._drop_blocks_behind(rows, ends)

    def advance_chunks(self, inputs: StepInputs) -> None:
        """Advances the requests that a step samples nothing for.

        The others advance by `learn`.
        """
        is_chunk = ~inputs.is_sampling
        self.num_computed[inputs.rows[is_chunk]] += inputs.query_lens[is_chunk]

    def _drop_blocks_behind(self, rows: int | Int64, ends: int | Int64) -> None:
        """Like the scheduler, drops blocks that hold only rejected drafts."""
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
    """Adds the places after each draft; `num_drafts` is [sampling requests]."""
    counts = num_drafts + 1
    last = np.repeat(np.cumsum(counts), counts) - 1
    behind = np.arange(len(last)) - last  # 0 at each request's last place
    return SamplePlaces(
        np.repeat(samples.rows, counts),
        np.repeat(samples.ends, counts) + behind,
        np.repeat(samples.indices, counts) + behind,
    )
