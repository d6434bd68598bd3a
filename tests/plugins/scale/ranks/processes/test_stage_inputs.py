"""A stage that samples nothing makes the same inputs as the one that samples."""

import random
from collections import deque

import numpy as np
import pytest

from hookline.config import CacheConfig, SchedulerConfig
from hookline.engine.worker.executor import DeferredStep, Executor
from hookline.engine.worker.input_batch import InputBatch, StepInputs
from hookline.finish_cause import Aborted
from hookline.stats.scheduler_stats import Residue
from hookline.step import StepPlan, StepResult
from hookline_drafting import SpeculativeConfig
from hookline_drafting.guard import ProposerGuard
from hookline_kernels.draft_verification import Verified
from hookline_ranks.pipeline import NEW_TOKENS
from hookline_testing.proposers import ScriptedProposer
from hookline_testing.simulation import (
    VOCAB_SIZE,
    engine_request,
    run_to_end,
    simulated_core,
    tokens_of,
)
from hookline_testing.wrapped_executor import WrappedExecutor

MAX_MODEL_LEN, BLOCK_SIZE = 32, 4
FIELDS = ("token_ids", "positions", "slots", "query_lens", "seq_lens", "block_tables")


class TwoStages(WrappedExecutor):
    """Keeps the batches of a first and of a last stage, and compares their inputs.

    The first stage makes its inputs when the step is started, the last one when its
    result is taken.
    """

    def __init__(self, inner: Executor, max_num_seqs: int) -> None:
        super().__init__(inner)
        self.first, self.last = (
            InputBatch(max_num_seqs, MAX_MODEL_LEN, BLOCK_SIZE) for _ in range(2)
        )
        self._first_inputs: deque[StepInputs] = deque()

    def start(self, plan: StepPlan) -> DeferredStep:
        _change(self.first, plan, learns=True)
        self._first_inputs.append(self.first.inputs(plan))
        self.first.advance_chunks(self._first_inputs[-1])
        step = self._inner.start(plan)

        def result(plan: StepPlan) -> StepResult:
            _change(self.last, plan, learns=False)
            inputs = self.last.inputs(plan)
            found = step.result()
            self._compare(inputs, self._first_inputs.popleft())
            self._advance(inputs, found.tokens)
            return found

        return DeferredStep(result, plan)

    def _compare(self, expected: StepInputs, found: StepInputs) -> None:
        for name in FIELDS:
            wanted, got = (getattr(each, name) for each in (expected, found))
            assert np.array_equal(wanted, got), name

    def _advance(self, inputs: StepInputs, tokens: dict[int, list[int]]) -> None:
        """Advances the last stage past a step, as a runner does."""
        rows = inputs.samples.rows
        ids = [self.last.request_ids[row] for row in rows.tolist()]
        if inputs.num_drafts is None:
            firsts_only = [tokens[each][0] for each in ids]
            self.last.advance(inputs, np.array(firsts_only, np.int64))
            return
        firsts = np.flatnonzero(np.diff(rows, prepend=-1))
        counts = np.array([len(tokens[ids[at]]) for at in firsts.tolist()], np.int64)
        behind = np.arange(len(rows)) - np.repeat(
            firsts, np.diff(np.append(firsts, len(rows)))
        )
        kept = behind < np.repeat(counts, np.diff(np.append(firsts, len(rows))))
        sampled = np.zeros(len(rows), np.int64)
        sampled[kept] = [token for at in firsts.tolist() for token in tokens[ids[at]]]
        verified = Verified(is_kept=kept, firsts=firsts, counts=counts)
        self.last.advance_verified(inputs, sampled, verified)


def _change(batch: InputBatch, plan: StepPlan, *, learns: bool) -> None:
    for request_id in plan.released:
        batch.remove_request(request_id)
    for sequence in plan.admitted:
        batch.admit(sequence)
    if learns:
        new = NEW_TOKENS.read(plan.sections)
        assert new is not None
        batch.learn(new.token_ids)
    batch.grow(plan)


@pytest.mark.parametrize("has_drafts", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_plans_tell_a_first_stage_all_it_needs(seed: int, *, has_drafts: bool) -> None:
    """With chunks, preemption, aborts and drafts, in as many batches as there are."""
    source = random.Random(seed)  # noqa: S311 - a test
    prompts = [
        [source.randrange(3, 50) for _ in range(source.randint(1, 14))]
        for _ in range(14)
    ]
    lengths = [source.randint(1, MAX_MODEL_LEN - len(prompt)) for prompt in prompts]
    texts = []
    for prompt, length in zip(prompts, lengths, strict=True):
        alone = simulated_core(max_model_len=MAX_MODEL_LEN)
        alone.add(engine_request(1, prompt, length))
        texts.append([*prompt, *tokens_of(run_to_end(alone))[1]])
    guard = None
    if has_drafts:
        config = SpeculativeConfig(
            method="test", num_speculative_tokens=4, timeout_seconds=30
        )
        proposer = ScriptedProposer(texts, errors=0.4, vocab_size=VOCAB_SIZE)
        guard = ProposerGuard(proposer, config, vocab_size=VOCAB_SIZE)
    seqs = source.randint(2, 6)
    core = simulated_core(
        stages=2 + seed % 2,
        cache=CacheConfig(block_size=BLOCK_SIZE, num_kv_blocks=8 + source.randrange(8)),
        scheduler=SchedulerConfig(
            max_num_seqs=seqs,
            max_num_batched_tokens=seqs + source.randint(0, 20),
            async_scheduling=not has_drafts and seed % 4 == 0,
        ),
        max_model_len=MAX_MODEL_LEN,
        wrap=lambda inner: TwoStages(inner, seqs),
        guard=guard,
    )

    outputs = []
    for number, prompt in enumerate(prompts):
        core.add(engine_request(number, prompt, lengths[number]))
        outputs += [core.step() for _ in range(source.randrange(3)) if core.has_work]
    core.finish([3, 7], Aborted("the test"))
    outputs += run_to_end(core)

    found = tokens_of(outputs)
    for number, prompt in enumerate(prompts):
        told = [*prompt, *found.get(number, [])]
        assert told == texts[number][: len(told)]
    stats = core.report("end").stats
    assert (stats.kv_blocks_used, stats.totals.residue) == (0, Residue())
    core.close()
