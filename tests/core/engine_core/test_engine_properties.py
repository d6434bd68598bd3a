"""Random traffic on whole engine cores: books, budgets, contents and ends."""

from dataclasses import dataclass, field
from functools import cache

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)

from hookline.config import CacheConfig, HashAlgorithm, Policy, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.engine.worker.executor import Executor
from hookline.events import StepOutput, StepRecord
from hookline.finish_cause import Aborted
from hookline.request import FinishReason
from hookline.stats.scheduler_stats import Residue
from hookline_testing.cache_check import CacheCheckingExecutor
from hookline_testing.essential import examples
from hookline_testing.simulation import (
    engine_request,
    run_to_end,
    simulated_core,
    tokens_of,
)

MAX_MODEL_LEN = 24
MAX_STEPS_A_REQUEST = 400
PREFIXES = st.sampled_from([(), (5, 6, 7, 8), (5, 6, 7, 8, 9, 10, 11, 12), (5, 6, 1)])
SUFFIXES = st.lists(st.integers(3, 4), min_size=1, max_size=12)


@st.composite
def schedulers(draw: st.DrawFn) -> SchedulerConfig:
    max_num_seqs = draw(st.integers(1, 6))
    is_chunked = draw(st.booleans())
    thresholds = st.none() | st.integers(1, 8)
    budget = max_num_seqs + draw(st.integers(0, 24))
    return SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=budget if is_chunked else max(budget, MAX_MODEL_LEN),
        enable_chunked_prefill=is_chunked,
        long_prefill_token_threshold=draw(thresholds if is_chunked else st.none()),
        policy=draw(st.sampled_from(Policy)),
    )


@st.composite
def caches(draw: st.DrawFn) -> CacheConfig:
    block_size = draw(st.integers(1, 8))
    needed = -(-MAX_MODEL_LEN // block_size)
    is_caching = draw(st.booleans())
    samples = [0.0, 0.0, 0.3, 1.0] if is_caching else [0.0]
    return CacheConfig(
        block_size=block_size,
        num_kv_blocks=needed + draw(st.integers(0, needed)),
        enable_prefix_caching=is_caching,
        residency_sample=draw(st.sampled_from(samples)),
        hash_algorithm=draw(st.sampled_from(HashAlgorithm)),
    )


@cache
def alone(prompt: tuple[int, ...], max_tokens: int) -> list[int]:
    """Returns what the request generates alone in an engine."""
    core = simulated_core(max_model_len=MAX_MODEL_LEN)
    core.add(engine_request(1, prompt, max_tokens))
    return tokens_of(run_to_end(core))[1]


@dataclass
class Account:
    """The outputs of one request, summed by hand."""

    prompt: tuple[int, ...]
    max_tokens: int
    tokens: list[int] = field(default_factory=list)
    computed: int = 0
    high_water: int = 0
    recomputed: int = 0
    is_running: bool = False
    is_aborted: bool = False
    reason: FinishReason | None = None


class EngineMachine(RuleBasedStateMachine):
    """Requests arrive and are aborted between the steps of one engine."""

    @initialize(scheduler=schedulers(), cache_config=caches())
    def start(self, scheduler: SchedulerConfig, cache_config: CacheConfig) -> None:
        self.config = scheduler
        self.core = self.make_core(scheduler, cache_config)
        self.accounts: dict[int, Account] = {}
        self.computed = 0

    def make_core(
        self, scheduler: SchedulerConfig, cache_config: CacheConfig
    ) -> EngineCore:
        def wrap(inner: Executor) -> Executor:
            self.memory = CacheCheckingExecutor(inner, cache_config.block_size)
            return self.memory

        return simulated_core(
            cache=cache_config,
            scheduler=scheduler,
            max_model_len=MAX_MODEL_LEN,
            wrap=wrap,
        )

    @rule(
        prefix=PREFIXES,
        suffix=SUFFIXES,
        max_tokens=st.integers(1, MAX_MODEL_LEN),
        n=st.sampled_from([1, 1, 1, 2, 3]),
        priority=st.integers(0, 2),
        salt=st.sampled_from([None, None, "salt"]),
        lora=st.sampled_from([None, None, "lora"]),
        prompt_logprobs=st.sampled_from([None, None, None, 0]),
    )
    def add(
        self,
        prefix: tuple[int, ...],
        suffix: list[int],
        *,
        max_tokens: int,
        n: int,
        priority: int,
        salt: str | None,
        lora: str | None,
        prompt_logprobs: int | None,
    ) -> None:
        prompt = (*prefix, *suffix)
        for _ in range(n):
            request_id = len(self.accounts) + 1
            self.memory.namespaces[request_id] = (lora, salt)
            self.accounts[request_id] = Account(prompt, max_tokens)
            self.core.add(
                engine_request(
                    request_id,
                    prompt,
                    max_tokens,
                    priority=priority,
                    lora=lora,
                    cache_salt=salt,
                    prompt_logprobs=prompt_logprobs,
                )
            )
        self.check_books()

    @precondition(lambda self: any(each.reason is None for each in self.open()))
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        live = [key for key, each in self.accounts.items() if each.reason is None]
        ids = data.draw(st.lists(st.sampled_from(live), min_size=1, max_size=3))
        for request_id in ids:
            self.accounts[request_id].is_aborted = True
        self.core.finish(ids, Aborted("the test"))
        self.check_books()

    @rule()
    def abort_a_stranger(self) -> None:
        self.core.finish([10**6], Aborted("unknown"))
        self.check_books()

    @rule()
    def reset_prefix_cache(self) -> None:
        self.core.reset_prefix_cache()
        self.check_books()

    @precondition(lambda self: self.core.has_work)
    @rule(count=st.integers(1, 6))
    def step(self, count: int) -> None:
        for _ in range(count):
            if self.core.has_work:
                self.take(self.core.step())
                self.check_books()

    def teardown(self) -> None:
        if not hasattr(self, "core"):
            return
        for _ in range(MAX_STEPS_A_REQUEST * (len(self.accounts) + 1)):
            if not self.core.has_work:
                break
            self.take(self.core.step())
            self.check_books()
        assert not self.core.has_work
        self.take(self.core.report("end"))
        for account in self.accounts.values():
            expected = alone(account.prompt, account.max_tokens)
            if account.is_aborted:
                assert account.reason is FinishReason.ABORT
                assert account.tokens == expected[: len(account.tokens)]
            else:
                assert account.reason is FinishReason.LENGTH
                assert account.tokens == expected

    # -- what must hold -----------------------------------------------------------

    def open(self) -> list[Account]:
        return [each for each in self.accounts.values() if each.reason is None]

    def take(self, output: StepOutput) -> None:
        """Adds an output to the accounts."""
        for preempted in output.events.preempted:
            account = self.accounts[preempted.request_id]
            assert account.is_running
            assert preempted.computed_tokens == account.computed
            account.is_running = False
        for scheduled in output.events.scheduled:
            account = self.accounts[scheduled.request_id]
            assert not account.is_running
            account.is_running = True
            account.computed = found = scheduled.local_cached_tokens
            again = max(0, account.high_water - found)
            assert scheduled.recomputed_tokens == again
        if output.record is not None:
            running = {key for key, each in self.accounts.items() if each.is_running}
            assert self.memory.batch == running
            self.take_record(output.record)
            assert output.record.sampled_requests == len(output.events.new_tokens)
        for event in output.events.new_tokens:
            self.accounts[event.request_id].tokens += event.token_ids
        for finished in output.events.finished:
            account = self.accounts[finished.request_id]
            assert account.reason is None
            account.reason, account.is_running = finished.reason, False
            assert finished.output_tokens == len(account.tokens)

    def take_record(self, record: StepRecord) -> None:
        """A step computes something, within its limits."""
        counts = [count for _, count in record.request_tokens]
        assert 1 <= sum(counts) <= self.config.tokens_per_step
        assert sum(counts) == record.work.prefill_tokens + record.work.decode_tokens
        assert len(counts) <= self.config.max_num_seqs
        assert len(counts) == record.work.prefill_requests + record.work.decode_requests
        assert all(count >= 1 for count in counts)
        self.computed += sum(counts)
        context = pairs = 0
        for request_id, count in record.request_tokens:
            account = self.accounts[request_id]
            context += account.computed
            pairs += sum(account.computed + token for token in range(1, count + 1))
            assert account.is_running
            after = account.computed + count
            account.recomputed += max(
                0, min(after, account.high_water) - account.computed
            )
            account.computed = after
            account.high_water = max(account.high_water, after)
            assert after <= len(account.prompt) + len(account.tokens)
        assert (record.work.context_tokens, record.work.attention_pairs) == (
            context,
            pairs,
        )

    def check_books(self) -> None:
        """Every conservation law, recounted now."""
        state = self.core.report("check")
        self.take(state)
        stats = state.stats
        accounts = self.accounts.values()
        assert stats.totals.residue == Residue()
        assert stats.totals.received == len(self.accounts)
        assert stats.running == sum(account.is_running for account in accounts)
        assert stats.running <= self.config.max_num_seqs
        assert stats.running + stats.waiting == len(self.open())
        assert stats.waiting_tokens == sum(
            len(each.prompt) + len(each.tokens)
            for each in self.open()
            if not each.is_running
        )
        assert (stats.oldest_running_at is None) == (stats.running == 0)
        assert (stats.oldest_waiting_at is None) == (stats.waiting == 0)
        assert sum(stats.totals.finished.values()) == len(self.accounts) - len(
            self.open()
        )
        assert stats.totals.computed_tokens == self.computed
        assert stats.totals.recomputed_tokens == sum(
            each.recomputed for each in accounts
        )
        assert (
            stats.totals.prefix_cache.hit_tokens
            <= stats.totals.prefix_cache.queried_tokens
        )
        assert 0 <= stats.kv_blocks_used <= stats.kv_blocks - stats.kv_blocks_cached
        if not self.open():
            assert stats.kv_blocks_used == 0


TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = settings(
    max_examples=examples(400), stateful_step_count=30, deadline=None
)
