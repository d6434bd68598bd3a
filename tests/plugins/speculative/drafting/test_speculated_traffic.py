"""Random traffic with drafts on whole engine cores: contents, books and ends."""

import random

import numpy as np
import pytest

from hookline.config import CacheConfig, Policy, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.engine.worker.executor import Executor
from hookline.events import StepOutput
from hookline.finish_cause import Aborted
from hookline.stats.scheduler_stats import Residue
from hookline_drafting import Proposer, SpeculativeConfig
from hookline_drafting.guard import ProposerGuard
from hookline_testing.cache_check import CacheCheckingExecutor
from hookline_testing.essential import essential
from hookline_testing.proposers import RandomProposer, ScriptedProposer
from hookline_testing.simulation import (
    VOCAB_SIZE,
    engine_request,
    run_to_end,
    simulated_core,
    tokens_of,
)

MAX_MODEL_LEN = 32


class Traffic:
    """Requests of a seed, and an engine for them."""

    def __init__(self, seed: int) -> None:
        source = random.Random(seed)  # noqa: S311 - a test
        prefix = [source.randrange(3, 50) for _ in range(8)]
        self.source = source
        self.prompts = [
            prefix[: source.randrange(9)]
            + [source.randrange(3, 50) for _ in range(source.randint(1, 10))]
            for _ in range(12)
        ]
        self.lengths = [
            source.randint(1, MAX_MODEL_LEN - len(prompt)) for prompt in self.prompts
        ]
        block_size = source.choice([1, 2, 3, 4, 8])
        needed = -(-MAX_MODEL_LEN // block_size)
        self.cache = CacheConfig(
            block_size=block_size,
            num_kv_blocks=needed + source.randrange(needed + 1),
            enable_prefix_caching=source.random() < 0.7,
        )
        seqs = source.randint(1, 6)
        self.scheduler = SchedulerConfig(
            max_num_seqs=seqs,
            max_num_batched_tokens=seqs + source.randint(0, 24),
            policy=source.choice(list(Policy)),
        )

    def alone(self) -> list[list[int]]:
        """Returns each request's output without drafts and without the others."""
        texts = []
        for prompt, length in zip(self.prompts, self.lengths, strict=True):
            core = simulated_core(max_model_len=MAX_MODEL_LEN)
            core.add(engine_request(1, prompt, length))
            texts.append(tokens_of(run_to_end(core))[1])
        return texts

    def core(self, proposer: Proposer, stages: int) -> EngineCore:
        config = SpeculativeConfig(
            method="test",
            num_speculative_tokens=self.source.randint(1, 6),
            timeout_seconds=30,
        )
        guard = ProposerGuard(proposer, config, vocab_size=VOCAB_SIZE)

        def wrap(inner: Executor) -> Executor:
            return CacheCheckingExecutor(inner, self.cache.block_size)

        return simulated_core(
            cache=self.cache,
            scheduler=self.scheduler,
            max_model_len=MAX_MODEL_LEN,
            wrap=wrap,
            guard=guard,
            stages=stages,
        )


def check_step(core: EngineCore, output: StepOutput, budget: int) -> None:
    """A step keeps its limits, and its counts agree with its events."""
    record = output.record
    if output.cause == "start":
        return
    assert record is not None
    assert sum(count for _, count in record.request_tokens) <= budget
    events = output.events.new_tokens
    verified = record.verified
    assert verified.drafts == sum(event.draft_tokens > 0 for event in events)
    assert verified.draft_tokens == sum(event.draft_tokens for event in events)
    assert verified.accepted_tokens == sum(event.accepted_tokens for event in events)
    assert verified.accepted_tokens == sum(verified.accepted_by_position)
    by_position = verified.accepted_by_position
    assert list(by_position) == sorted(by_position, reverse=True)
    for event in events:
        assert 0 <= event.accepted_tokens <= event.draft_tokens
        assert event.accepted_tokens <= len(event.token_ids)
        assert len(event.token_ids) <= event.accepted_tokens + 1
    assert core.report("check").stats.totals.residue == Residue()


@pytest.mark.parametrize("kind", ["right", "half-right", "random"])
@pytest.mark.parametrize(
    ("stages", "seed"),
    essential(
        [
            *((1, seed) for seed in range(25)),
            *((2 + seed % 3, seed) for seed in range(15)),
        ],
        *((1, seed) for seed in range(9)),
        *((2 + seed % 3, seed) for seed in range(6)),
    ),
)
def test_traffic_is_left_as_it_is(stages: int, seed: int, kind: str) -> None:
    """Tokens, blocks and ends are right with tiny pools, budgets and wrong drafts.

    The executor checks that every step reads the keys and values of its own tokens.
    """
    traffic = Traffic(seed)
    expected = traffic.alone()
    texts = [
        [*prompt, *text] for prompt, text in zip(traffic.prompts, expected, strict=True)
    ]
    errors = 0.0 if kind == "right" else 0.5
    proposer: Proposer = ScriptedProposer(texts, errors=errors, vocab_size=VOCAB_SIZE)
    if kind == "random":
        proposer = RandomProposer(VOCAB_SIZE)
    core = traffic.core(proposer, stages)
    aborted = traffic.source.sample(range(12), 2)
    outputs = []

    for number, prompt in enumerate(traffic.prompts):
        core.add(engine_request(number, prompt, traffic.lengths[number]))
        for _ in range(traffic.source.randrange(3)):
            if core.has_work:
                outputs.append(core.step())
                check_step(core, outputs[-1], traffic.scheduler.tokens_per_step)
    core.finish(aborted, Aborted("the test"))
    for output in run_to_end(core):
        check_step(core, output, traffic.scheduler.tokens_per_step)
        outputs.append(output)

    found = tokens_of(outputs)
    for number, text in enumerate(expected):
        told = found.get(number, [])
        assert told == (text[: len(told)] if number in aborted else text)
    stats = core.report("end").stats
    assert (stats.kv_blocks_used, stats.totals.residue) == (0, Residue())
    assert stats.totals.received == sum(stats.totals.finished.values()) == 12
    core.close()


def test_drafts_never_preempt() -> None:
    """Drafts never cause a preemption."""
    cache = CacheConfig(block_size=1, num_kv_blocks=20, enable_prefix_caching=False)
    counts = []
    for proposer in (None, RandomProposer(VOCAB_SIZE)):
        guard = None
        if proposer is not None:
            config = SpeculativeConfig(
                method="test", num_speculative_tokens=8, timeout_seconds=30
            )
            guard = ProposerGuard(proposer, config, vocab_size=VOCAB_SIZE)
        core = simulated_core(cache=cache, max_model_len=20, guard=guard)
        core.add(engine_request(1, [3] * 4, 6))
        core.add(engine_request(2, [4] * 4, 6))
        run_to_end(core)
        counts.append(core.report("end").stats.totals.preemptions)

    assert counts == [0, 0]


def test_drafts_take_only_what_prompts_leave() -> None:
    """A step whose budget is spent on a prompt verifies no drafts."""
    text = [3, 4, 5]
    first = simulated_core(max_model_len=64)
    first.add(engine_request(1, text, 12))
    known = [*text, *tokens_of(run_to_end(first))[1]]
    config = SpeculativeConfig(
        method="test", num_speculative_tokens=4, timeout_seconds=30
    )
    guard = ProposerGuard(ScriptedProposer([known]), config, vocab_size=VOCAB_SIZE)
    core = simulated_core(
        scheduler=SchedulerConfig(max_num_seqs=2, max_num_batched_tokens=8),
        max_model_len=64,
        guard=guard,
    )
    core.add(engine_request(1, text, 12))
    core.step()
    core.add(engine_request(2, list(range(100, 117)), 1))

    records = [output.record for output in (core.step(), core.step(), core.step())]

    # 1 + 7 of the prompt, 1 + 7, and 1 + 3 + what is left for drafts.
    assert [record.verified.draft_tokens for record in records if record] == [0, 0, 4]
    core.close()


def test_positions_are_counted_from_the_first() -> None:
    """Two of three drafts accepted are one at the first and one at the second place."""
    text = [3, 4, 5]
    plain = simulated_core(max_model_len=64)
    plain.add(engine_request(1, text, 12))
    known = [*text, *tokens_of(run_to_end(plain))[1]]
    known[6] += 1  # the third draft behind the first token
    config = SpeculativeConfig(
        method="test", num_speculative_tokens=3, timeout_seconds=30
    )
    proposer = ScriptedProposer([known], vocab_size=VOCAB_SIZE)
    guard = ProposerGuard(proposer, config, vocab_size=VOCAB_SIZE)
    core = simulated_core(max_model_len=64, guard=guard)
    core.add(engine_request(1, text, 12))
    core.step()

    output = core.step()

    assert output.record is not None
    verified = output.record.verified
    assert (verified.drafts, verified.draft_tokens) == (1, 3)
    assert verified.accepted_by_position == (1, 1)
    [event] = output.events.new_tokens
    assert np.array_equal(event.token_ids[:2], known[4:6])
    assert len(event.token_ids) == 3
    core.close()
