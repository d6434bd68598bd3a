"""Which sampled tokens are kept, by arrays."""

import msgspec
import numpy as np

from hookline.engine.kv_cache.block_pool import BlockPool
from hookline.engine.worker.input_batch import InputBatch
from hookline.events import StepRecord, VerifiedDrafts
from hookline.sampling_params import SamplingParams
from hookline.stats.step_work import StepWork
from hookline.step import AdmittedSequence, StepPlan
from hookline_kernels.draft_verification import verify
from hookline_kernels.rejection import DraftLayout
from hookline_metrics.drafts import DRAFT_USE, DraftUse
from hookline_metrics.speculation import SpeculationYield
from hookline_models.machines.host_feed import one_by_one

MILLISECOND = 1_000_000


def test_tokens_are_kept_up_to_the_first_wrong_draft() -> None:
    """Right drafts, a wrong second one, no drafts, a wrong first one."""
    rows = np.array([4, 4, 4, 2, 2, 2, 7, 1, 1])
    sampled = np.array([10, 11, 12, 20, 21, 22, 30, 40, 41])
    drafts = np.array([10, 11, -1, 20, 99, -1, -1, 98, -1])

    verified = verify(rows, sampled, drafts)

    assert verified.counts.tolist() == [3, 2, 1, 1]
    assert verified.firsts.tolist() == [0, 3, 6, 7]
    assert sampled[verified.is_kept].tolist() == [10, 11, 12, 20, 21, 30, 40]


def test_last_token_is_compared_with_nothing() -> None:
    """Whatever stands behind a request's drafts does not make it longer."""
    verified = verify(np.array([1, 1]), np.array([5, 6]), np.array([5, 6]))

    assert verified.counts.tolist() == [2]


def test_layout_applies_the_rejection() -> None:
    """One of two drafts accepted, all of one: drafts, and the tokens behind them."""
    layout = DraftLayout(np.array([3, 3, 3, 5, 5]))

    settled, tokens = layout.settle(
        np.array([10, 11, 20]), np.array([1, 1]), np.array([70, 80])
    )

    assert layout.starts.tolist() == [0, 2, 3]
    assert layout.is_draft.tolist() == [True, True, False, True, False]
    assert settled.tolist() == [0, 1, 3, 4]
    assert tokens.tolist() == [10, 70, 20, 80]


def test_drafts_are_tokens_of_their_request() -> None:
    """Two drafts are computed with the newest token, at once or as three decodes."""
    batch = InputBatch(3, 40, 4)
    for request_id, computed, count in ((1, 4, 5), (2, 2, 8)):
        batch.admit(
            AdmittedSequence(
                request_id=request_id,
                token_ids=list(range(count)),
                num_prompt_tokens=3,
                num_computed_tokens=computed,
                block_ids=[10 * request_id, 10 * request_id + 1],
                params=SamplingParams(),
                eos_token_ids=(),
                bad_words_token_ids=(),
            )
        )
    plan = StepPlan(step=1, request_ids=[1, 2], num_tokens=[3, 6], drafts={1: [90, 91]})

    inputs = batch.inputs(plan)

    alone = one_by_one(inputs)
    assert inputs.query_lens.tolist() == [3, 6]
    assert inputs.seq_lens.tolist() == [7, 8]
    assert alone.query_lens.tolist() == [1, 1, 1, 6]
    assert alone.seq_lens.tolist() == [5, 6, 7, 8]
    assert inputs.samples.indices.tolist() == [0, 1, 2, 8]
    assert inputs.samples.ends.tolist() == [5, 6, 7, 8]
    assert inputs.token_ids.tolist() == [4, 90, 91, 2, 3, 4, 5, 6, 7]
    assert inputs.positions[:3].tolist() == [4, 5, 6]
    assert inputs.slots[:3].tolist() == [44, 45, 46]
    assert alone.block_tables[:3].tolist() == [[10, 11]] * 3
    assert inputs.is_sampling.all()
    verified = verify(
        inputs.samples.rows, np.array([90, 55, 1, 66]), np.array([90, 91, 0, 0])
    )
    batch.advance_verified(inputs, np.array([90, 55, 1, 66]), verified)
    rows = inputs.rows
    assert batch.num_tokens[rows].tolist() == [7, 9]
    assert batch.num_computed[rows].tolist() == [6, 8]
    assert batch.token_ids[rows[0], :7].tolist() == [0, 1, 2, 3, 4, 90, 55]


def test_unused_blocks_are_taken_before_reusable_ones() -> None:
    """A block that only refused drafts were written to does not cost a prefix."""
    pool = BlockPool(4)
    known = pool.allocate(3)
    for block_id in known:
        pool.cache_block(block_id, bytes([block_id]))
    pool.free(known)
    for _ in range(10):
        [block_id] = pool.allocate(1)
        pool.free_unused([block_id])

    assert pool.num_reusable == 3
    assert (pool.num_free, pool.num_references) == (4, 0)


def step(
    *,
    requests: int,
    milliseconds: int,
    accepted: int = 0,
    drafts: int = 0,
    most: int = 0,
) -> StepRecord:
    """A step of decodes; two draft tokens for each draft."""
    end = milliseconds * MILLISECOND
    return StepRecord(
        1, 0, 0, 0, end, end, [],
        work=StepWork(decode_requests=requests, decode_tokens=requests + 2 * drafts),
        verified=VerifiedDrafts(drafts, 2 * drafts, accepted),
        sections={DRAFT_USE.name: DraftUse(most_drafts=most)},
    )  # fmt: skip


def test_speedup_is_estimated_from_steps_without_drafts() -> None:
    """Two tokens in 12 ms where one takes 10 are 20/12; of unknown sizes, nothing."""
    found = SpeculationYield()
    found.step(step(requests=1, milliseconds=12, accepted=1, drafts=1))
    before = found.reading(12 * MILLISECOND)
    for _ in range(5):
        found.step(step(requests=1, milliseconds=10))
    found.step(step(requests=1, milliseconds=12, accepted=1, drafts=1))
    found.step(step(requests=8, milliseconds=50, accepted=9, drafts=8, most=5))

    after = found.reading(60 * MILLISECOND)

    assert (before.speedup, before.acceptance, before.mean_length) == (None, 0.5, 2.0)
    assert after.speedup == 20 / 12
    assert after.acceptance == 11 / 20
    assert after.mean_length == 1 + 11 / 10
    assert (before.most_drafts, after.most_drafts) == (0, 5)


def test_efficiency_is_of_what_drafts_could_have_emitted() -> None:
    """Drafts are held against the limit that they were made under, and one token."""
    found = SpeculationYield()
    found.step(step(requests=2, milliseconds=10, most=4))
    silent = found.reading(10 * MILLISECOND)
    found.step(step(requests=2, milliseconds=20, accepted=3, drafts=2, most=1))
    found.step(step(requests=2, milliseconds=30, accepted=1, drafts=2, most=1))

    after = found.reading(30 * MILLISECOND)
    expired = found.reading(100_000 * MILLISECOND)

    assert silent.efficiency == 0.0
    assert after.efficiency == (3 + 2 + 1 + 2) / (2 * (4 + 1) + 2 * (1 + 1))
    assert expired.efficiency == 0.0


def test_efficiency_never_exceeds_one() -> None:
    """A step whose limit is not known has at least accepted what it has accepted."""
    found = SpeculationYield()
    record = step(requests=1, milliseconds=10, accepted=2, drafts=1)
    found.step(
        msgspec.structs.replace(record, verified=VerifiedDrafts(1, 2, 2, (1, 1)))
    )

    assert found.reading(10 * MILLISECOND).efficiency == 1.0
