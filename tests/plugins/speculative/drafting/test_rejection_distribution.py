"""With drafts, certain or drawn, tokens are distributed as the target's are.

The target is a small Markov chain: what follows a token depends on it alone. Of many
requests that differ in their seeds two tokens each are drawn, the first step with two
drafts, and pairs are counted.
"""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
import torch

from hookline import SamplingParams
from hookline.engine.worker.input_batch import InputBatch
from hookline.engine.worker.sampling.sampler import DrawnDrafts
from hookline.engine.worker.sampling.sampling_state import SamplingState
from hookline.step import AdmittedSequence
from hookline_drafting.tree import DraftTree
from hookline_drafting.tree_arrays import TreeArrays
from hookline_kernels.draft_verification import Verified, verify
from hookline_kernels.rejection import Verified as KernelVerified
from hookline_kernels.sampling import ChosenSampling, choose_sampling
from hookline_models.sampling.sampler import Sampler
from hookline_testing.essential import essential

Int64 = npt.NDArray[np.int64]
VerifyTree = Callable[[TreeArrays, Int64, Int64, Int64], Verified]

DRAWS = 100_000
VOCAB = 8
START = 3
LEAST_P = 1e-4
"""A right sampler falls below it once in ten thousand seeds; the seeds are fixed."""

SETTINGS = {
    "plain": SamplingParams(),
    "hot": SamplingParams(temperature=1.6),
    "top-k": SamplingParams(temperature=1.2, top_k=5),
    "top-p": SamplingParams(top_p=0.8),
    "all": SamplingParams(temperature=1.4, top_k=6, top_p=0.9, min_p=0.03),
}


def logits_after() -> torch.Tensor:
    """The target's next-token distribution, [token, vocabulary]."""
    return torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(8)) * 1.5


def target(params: SamplingParams) -> torch.Tensor:
    """[token, vocabulary] what is drawn from behind each token, by sorting."""
    logits = logits_after().double() / params.temperature
    kept = torch.ones_like(logits, dtype=torch.bool)
    best = logits.sort(-1, descending=True)
    width = params.top_k or VOCAB
    kept.scatter_(1, best.indices[:, width:], value=False)
    shares = logits.masked_fill(~kept, -torch.inf).softmax(-1).sort(-1, descending=True)
    dropped = shares.values.cumsum(-1) - shares.values >= params.top_p
    kept &= ~torch.zeros_like(kept).scatter(1, shares.indices, dropped)
    plain = logits.softmax(-1)
    kept &= plain >= params.min_p * plain.amax(-1, keepdim=True)
    return logits.masked_fill(~kept, -torch.inf).softmax(-1)


def draft_rows(
    source: np.random.Generator, params: SamplingParams, kind: str
) -> npt.NDArray[np.float32]:
    """[token, vocabulary] what drafts are drawn from: somewhat like the target.

    Of a `head` at the request's temperature, and over a vocabulary that is smaller.
    """
    noise = torch.from_numpy(source.normal(size=(VOCAB, VOCAB)))
    logits = logits_after() + noise
    if kind == "head":
        logits /= params.temperature
        logits[:, [0, 5]] = -torch.inf
    return logits.softmax(-1).float().numpy()


def drawn_from(
    source: np.random.Generator, rows: npt.NDArray[np.float32], before: Int64
) -> Int64:
    cumulative = rows[before].cumsum(-1)
    points = source.random(len(before))[:, None] * cumulative[:, -1:]
    passed: Int64 = (cumulative < points).sum(-1)
    return passed.clip(max=VOCAB - 1)


def admitted(
    params: SamplingParams, tree: TreeArrays | None = None
) -> tuple[InputBatch, SamplingState, Int64]:
    """Requests of other seeds, and the row of each."""
    batch, state = InputBatch(DRAWS, 8, 16, tree), SamplingState(DRAWS, VOCAB, 0)
    for seed in range(DRAWS):
        sequence = AdmittedSequence(
            request_id=seed,
            token_ids=[START],
            num_prompt_tokens=1,
            num_computed_tokens=0,
            block_ids=(),
            params=msgspec.structs.replace(params, seed=seed),
            eos_token_ids=(),
            bad_words_token_ids=(),
        )
        state.admit(batch.admit(sequence), sequence)
    return batch, state, np.array([batch._row_of[seed] for seed in range(DRAWS)])


def pairs(params: SamplingParams, kind: str, chosen: ChosenSampling) -> Int64:
    """[VOCAB × VOCAB] counts of (first, second) token."""
    source = np.random.default_rng(17)
    batch, state, rows = admitted(params)
    start = np.full(DRAWS, START)
    rows_of_q = draft_rows(source, params, kind)
    first, second = start * 0 + 1, start * 0 + 6  # certain of these two
    if kind != "certain":
        first = drawn_from(source, rows_of_q, start)
        second = drawn_from(source, rows_of_q, first)
    batch.token_ids[rows, 1], batch.token_ids[rows, 2] = first, second
    contexts = np.stack([start, first, second], 1).ravel()
    spread, ends = np.repeat(rows, 3), np.tile(np.arange(1, 4), DRAWS)
    drawn = None
    if kind != "certain":
        probabilities = np.stack([rows_of_q[start], rows_of_q[first]], 1)
        drawn = DrawnDrafts(np.arange(3 * DRAWS), probabilities.reshape(-1, VOCAB))
    sampler = Sampler(batch, state, chosen)

    samples = sampler.sample(logits_after()[contexts], spread, ends, drawn)
    drafts = batch.token_ids[spread, ends.clip(max=3)].astype(np.int64)
    verified: Verified = verify(spread, samples.token_ids, drafts)

    tokens = samples.token_ids.reshape(DRAWS, 3)
    # Where the first step brought one token, the next one brings the second.
    alone = np.flatnonzero(verified.counts == 1)
    later = sampler.sample(
        logits_after()[tokens[alone, 0]], rows[alone], np.full(len(alone), 2)
    )
    tokens[alone, 1] = later.token_ids
    return np.bincount(tokens[:, 0] * VOCAB + tokens[:, 1], minlength=VOCAB**2)


NODES = np.array([START, 1, 6, 2, 0, 4, 1, 5])
"""A tree of drafts: three behind the start, four behind these."""
TREE = TreeArrays(DraftTree((None, None, None, 0, 0, 1, 2)))


def pairs_by_tree(
    params: SamplingParams,
    chosen: ChosenSampling,
    verify: VerifyTree = TreeArrays.verify,
) -> Int64:
    """The same with a tree of drafts in the first step."""
    batch, state, rows = admitted(params, TREE)
    sampler, count = Sampler(batch, state, chosen), len(NODES)
    batch.token_ids[rows[:, None], np.arange(1, count)] = NODES[1:]
    nodes, spread = np.tile(np.arange(count), DRAWS), np.repeat(rows, count)

    samples = sampler.sample(
        logits_after()[NODES[nodes]], spread, 1 + TREE.depths[nodes], nodes=nodes
    )
    verified = verify(TREE, spread, samples.token_ids, NODES[nodes])

    kept = samples.token_ids[verified.is_kept]
    starts = np.cumsum(verified.counts) - verified.counts
    tokens = np.stack([kept[starts], kept[np.minimum(starts + 1, len(kept) - 1)]], 1)
    alone = np.flatnonzero(verified.counts == 1)
    later = sampler.sample(
        logits_after()[tokens[alone, 0]], rows[alone], np.full(len(alone), 2)
    )
    tokens[alone, 1] = later.token_ids
    return np.bincount(tokens[:, 0] * VOCAB + tokens[:, 1], minlength=VOCAB**2)


def p_value(counts: Int64, params: SamplingParams) -> float:
    """Of the chi-square test; 0 if something came that cannot be."""
    probabilities = target(params)
    expected = (probabilities[START][:, None] * probabilities).flatten().numpy()
    expected = expected * counts.sum()
    if counts[expected == 0].any():
        return 0.0
    is_rare = expected < 5
    seen = np.append(counts[~is_rare], counts[is_rare].sum())
    wanted = np.append(expected[~is_rare], expected[is_rare].sum())
    seen, wanted = seen[wanted > 0], wanted[wanted > 0]
    chi_square = ((seen - wanted) ** 2 / wanted).sum()
    half = torch.tensor((len(wanted) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(half, torch.tensor(chi_square / 2)))


@pytest.mark.parametrize("kind", essential(["certain", "drawn", "head"], "drawn"))
@pytest.mark.parametrize(
    ("name", "may_compile"),
    essential([*((name, True) for name in SETTINGS), ("all", False)], ("all", True)),
)
def test_tokens_are_distributed_as_the_target(
    name: str, kind: str, may_compile: bool
) -> None:
    """Over 100 000 requests pairs of tokens come as often as without drafts."""
    params = SETTINGS[name]

    counts = pairs(
        params, kind, choose_sampling(torch.float32, may_compile=may_compile)
    )

    p = p_value(counts, params)
    print(f"{name}, {kind}: p = {p:.3f}")  # noqa: T201 - for pytest -s
    assert p > LEAST_P


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "may_compile"),
    essential([*((name, True) for name in SETTINGS), ("all", False)], ("all", True)),
)
def test_tokens_of_a_tree_are_distributed_as_the_target(
    name: str, may_compile: bool
) -> None:
    """Over 100 000 requests pairs of tokens come as often as without drafts."""
    params = SETTINGS[name]

    counts = pairs_by_tree(
        params, choose_sampling(torch.float32, may_compile=may_compile)
    )

    p = p_value(counts, params)
    print(f"{name}, tree: p = {p:.3f}")  # noqa: T201 - for pytest -s
    assert p > LEAST_P


def prefer_the_first(
    arrays: TreeArrays, rows: Int64, sampled: Int64, tokens: Int64
) -> Verified:
    """Wrong: if any child is what was sampled, the first one is followed."""
    right = arrays.verify(rows, sampled, tokens)
    kept = right.is_kept.reshape(-1, len(NODES)).copy()
    kept[:, 1] = kept[:, 1:4].any(1)
    kept[:, 2:] = False
    return Verified(kept.ravel(), right.firsts, kept.sum(1))


def guess_once_more(
    arrays: TreeArrays, rows: Int64, sampled: Int64, tokens: Int64
) -> Verified:
    """Wrong: where no child is what was sampled, the second one is tried again."""
    again = sampled.reshape(-1, len(NODES)).copy()
    is_tried = ~np.isin(again[:, 0], NODES[1:4]) & (again[:, 3] % 4 == 0)
    again[is_tried, 0] = NODES[2]
    sampled[:] = again.ravel()
    return arrays.verify(rows, sampled, tokens)


@pytest.mark.exhaustive
@pytest.mark.parametrize("wrong", [prefer_the_first, guess_once_more])
def test_a_wrong_rule_for_trees_is_found_out(wrong: VerifyTree) -> None:
    """The same check fails for rules that accept what was not sampled."""
    counts = pairs_by_tree(SETTINGS["all"], choose_sampling(torch.float32), wrong)

    assert p_value(counts, SETTINGS["all"]) < LEAST_P


def leave_out_the_draft(
    *given: torch.Tensor, reject: Callable[..., KernelVerified], **points: torch.Tensor
) -> KernelVerified:
    """Wrong: what comes for a refused draft is drawn from all of the target."""
    accepted, following = reject(*given, **points)
    starts, targets, count = given[1], given[3], len(accepted)
    at = starts[:-1] + accepted + torch.arange(count)
    cumulative = targets[at].double().cumsum(-1)
    drawn = torch.searchsorted(cumulative, points["next_points"][:, None])[:, 0]
    return KernelVerified(accepted, torch.minimum(drawn, following * 0 + VOCAB - 1))


def accept_too_much(
    *given: torch.Tensor, reject: Callable[..., KernelVerified], **points: torch.Tensor
) -> KernelVerified:
    """Wrong: a draft is accepted with a probability that is a tenth too high."""
    points["accept_points"] = points["accept_points"] / 1.1
    return reject(*given, **points)


@pytest.mark.exhaustive
@pytest.mark.parametrize("wrong", [leave_out_the_draft, accept_too_much])
def test_a_wrong_sampler_is_found_out(wrong: Callable[..., KernelVerified]) -> None:
    """The same check fails for samplers that are wrong in what they draw or accept."""
    right = choose_sampling(torch.float32)

    def reject(*given: torch.Tensor, **points: torch.Tensor) -> KernelVerified:
        return wrong(*given, reject=right.reject, **points)

    counts = pairs(SETTINGS["all"], "drawn", replace(right, reject=reject))

    assert p_value(counts, SETTINGS["all"]) < LEAST_P


@pytest.mark.slow
def test_a_draft_that_is_kept_too_often_is_found_out() -> None:
    """The check fails where one certain draft in fifty is accepted for free."""
    params = SETTINGS["plain"]
    counts = pairs(params, "certain", choose_sampling(torch.float32))
    table = counts.reshape(VOCAB, VOCAB)
    moved = table // 50

    table = table - moved
    table[1] += moved.sum(0)

    assert p_value(table.ravel(), params) < LEAST_P
