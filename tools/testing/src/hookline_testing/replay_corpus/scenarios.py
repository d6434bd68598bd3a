"""The scenarios of the corpus: each makes one recording, or one of each engine."""

import random
from collections.abc import Callable
from pathlib import Path

import msgspec

from hookline.clock import VirtualClock
from hookline.config import CacheConfig, Policy, SchedulerConfig
from hookline.engine.commands import Add, ResetPrefixCache, Sleep, SleepMode, WakeUp
from hookline.engine.engine_core import EngineCore
from hookline.finish_cause import StoppedByString
from hookline.pooling import POOLING
from hookline.request import GenerateRequest
from hookline_drafting.config import SpeculativeConfig
from hookline_drafting.guard import ProposerGuard
from hookline_recording.config import Content
from hookline_replay.sides import RecordedPooling
from hookline_simulated.config import SimulationConfig
from hookline_testing.cluster.cluster import Cluster
from hookline_testing.cluster.spec import ClusterSpec
from hookline_testing.cluster.traffic import Uniform
from hookline_testing.connected_core import connected_core
from hookline_testing.connectors import DictStore, Faults
from hookline_testing.proposers import ScriptedProposer
from hookline_testing.replay_corpus.recorded_engine import (
    RecordedEngine,
    finish,
    recorder_of,
)
from hookline_testing.replay_corpus.stand_ins import (
    ChangedResults,
    Embedding,
    TimedGate,
    failing,
    stopping,
)
from hookline_testing.replay_corpus.traffic import (
    Arrivals,
    Load,
    arrivals,
    with_facts,
)
from hookline_testing.simulation import (
    VOCAB_SIZE,
    engine_request,
    simulated_core,
    tokens_of,
)

TIMES = SimulationConfig(
    step_seconds=0.01, prefill_token_seconds=0.0001, decode_request_seconds=0.001
)
LENGTH = 160
SALT = b"the corpus' salt"
Make = Callable[[Path], None]

SCENARIOS: dict[str, Make] = {}
"""What makes the recordings, by their names; each gets the path of the file."""


def scenario(make: Make) -> Make:
    """Registers a scenario by its function's name."""
    SCENARIOS[make.__name__] = make
    return make


def limits(**changes: object) -> SchedulerConfig:
    given: dict[str, object] = {"max_num_seqs": 8, "max_num_batched_tokens": 64}
    return SchedulerConfig(**{**given, **changes})  # type: ignore[arg-type]


def serve(
    path: Path,
    core: EngineCore,
    commands: Arrivals,
    content: Content = Content.HASHES,
) -> None:
    engine = RecordedEngine(core, path, content=content, salt=SALT)
    engine.serve(commands)
    engine.close()


def plain(scheduler: SchedulerConfig | None = None, **options: object) -> EngineCore:
    return simulated_core(
        scheduler=scheduler or limits(),
        max_model_len=LENGTH,
        simulation=TIMES,
        **options,  # type: ignore[arg-type]
    )


@scenario
def prefix_hits(path: Path) -> None:
    """Prompts that share prefixes, in more blocks than they need."""
    core = plain(cache=CacheConfig(num_kv_blocks=256))
    serve(path, core, arrivals(Load(), 1))


@scenario
def preemption(path: Path) -> None:
    """Too few blocks for what runs."""
    core = plain(cache=CacheConfig(num_kv_blocks=24, block_size=8))
    serve(path, core, arrivals(Load(output_tokens=60, prompt_tokens=30), 2))


@scenario
def preemption_with_tokens(path: Path) -> None:
    """The same with whole prompts and outputs in the recording, and steps ahead."""
    core = plain(
        limits(async_scheduling=True), cache=CacheConfig(num_kv_blocks=24, block_size=8)
    )
    load = Load(output_tokens=60, prompt_tokens=30)
    serve(path, core, arrivals(load, 3), Content.TOKENS)


@scenario
def eviction(path: Path) -> None:
    """A prefix cache that is too small for what it is asked for."""
    core = plain(cache=CacheConfig(num_kv_blocks=40, block_size=4))
    serve(path, core, arrivals(Load(requests=60, output_tokens=6), 4))


@scenario
def chunked_prompts(path: Path) -> None:
    """Prompts that take several steps, with a limit for long ones."""
    core = plain(limits(max_num_batched_tokens=24, long_prefill_token_threshold=12))
    serve(path, core, arrivals(Load(prompt_tokens=100), 5))


@scenario
def whole_prompts(path: Path) -> None:
    """Prompts that are never divided."""
    core = plain(limits(max_num_batched_tokens=176, enable_chunked_prefill=False))
    serve(path, core, arrivals(Load(prompt_tokens=100), 6))


@scenario
def priorities(path: Path) -> None:
    """Priorities, which waiting makes up for, under preemption."""

    def change(request: GenerateRequest, source: random.Random) -> GenerateRequest:
        return with_facts(request, priority=source.randrange(-2, 3))

    core = plain(
        limits(policy=Policy.PRIORITY, priority_aging=0.1),
        cache=CacheConfig(num_kv_blocks=24, block_size=8),
    )
    serve(path, core, arrivals(Load(requests=60, seconds=1.0), 7, change))


@scenario
def fair_queue(path: Path) -> None:
    """Tenants and payers of different weights."""

    def change(request: GenerateRequest, source: random.Random) -> GenerateRequest:
        payer = source.choice("abc")
        return with_facts(
            request,
            tenant=payer,
            client=(payer, source.choice("xy")),
            weight={"a": 1.0, "b": 2.0, "c": 0.5}[payer],
        )

    core = plain(limits(policy=Policy.FAIR, max_num_seqs=4))
    serve(path, core, arrivals(Load(requests=70, seconds=0.8), 8, change))


@scenario
def choices(path: Path) -> None:
    """Several choices of a request queue one behind another."""
    commands: Arrivals = []
    for at, add in arrivals(Load(requests=16), 9):
        assert isinstance(add, Add)
        first = 100 * add.request.request_id
        request = with_facts(add.request, client_id=f"client-{first}")
        commands.append((at, Add(request, list(range(first, first + 5)))))
    serve(path, plain(), commands)


@scenario
def conversations(path: Path) -> None:
    """Second turns begin with the first ones' prompts and outputs."""
    core = plain(cache=CacheConfig(num_kv_blocks=200, block_size=4))
    engine = RecordedEngine(core, path, salt=SALT)
    first = arrivals(Load(requests=20, prompt_tokens=20), 10)
    outputs = tokens_of(engine.serve(first))
    second: Arrivals = []
    for at, add in first:
        assert isinstance(add, Add)
        prompt = [*add.request.prompt_token_ids, *outputs[add.request.request_id], 5]
        request = engine_request(add.request.request_id + 100, prompt, 10)
        second.append((at + 3, Add(request)))
    engine.serve(second)
    engine.close()


@scenario
def stop_tokens(path: Path) -> None:
    """Requests that a stop token ends, or a stop string, which clients find."""
    core = plain(wrap=lambda inner: ChangedResults(inner, stopping(11)))
    commands = arrivals(Load(), 11)
    commands += [(1.0, finish(each, cause=StoppedByString("."))) for each in range(9)]
    serve(path, core, commands)


@scenario
def faults(path: Path) -> None:
    """Requests that fail, and corrupted ones of which some go on."""
    core = plain(wrap=lambda inner: ChangedResults(inner, failing(12)))
    serve(path, core, arrivals(Load(), 12))


@scenario
def aborts(path: Path) -> None:
    """Clients that leave, and deadlines."""

    def change(request: GenerateRequest, source: random.Random) -> GenerateRequest:
        if source.random() < 0.5:
            return request
        return msgspec.structs.replace(request, timeout_seconds=source.random())

    commands = arrivals(Load(requests=60), 13, change)
    commands += [(0.02 * each, finish(each, each + 1)) for each in range(1, 60, 4)]
    serve(path, plain(limits(async_scheduling=True)), commands)


@scenario
def gates(path: Path) -> None:
    """Grammars that take their time; some are refused, some of their clients leave."""
    clock = VirtualClock()
    core = plain(clock=clock, gates=[TimedGate(clock), TimedGate(clock, "adapter")])
    commands = arrivals(Load(requests=60), 14)
    commands += [(0.5, finish(3, 6, 9, 15))]
    serve(path, core, commands)


@scenario
def drafts(path: Path) -> None:
    """Drafts, of which some are rejected."""
    load = Load(requests=30, prompt_tokens=20)
    known = [each.request for _, each in arrivals(load, 15) if isinstance(each, Add)]
    texts = []
    for request in known:
        alone = plain()
        alone.add(request)
        outputs = []
        while alone.has_work:
            outputs.append(alone.step())
        new = tokens_of(outputs)[request.request_id]
        texts.append([*request.prompt_token_ids, *new])
    config = SpeculativeConfig(
        method="test", num_speculative_tokens=4, timeout_seconds=30
    )
    proposer = ScriptedProposer(texts, errors=0.3, vocab_size=VOCAB_SIZE)
    guard = ProposerGuard(proposer, config, vocab_size=VOCAB_SIZE)
    core = plain(cache=CacheConfig(num_kv_blocks=30, block_size=8), guard=guard)
    serve(path, core, arrivals(load, 15))


@scenario
def sleep(path: Path) -> None:
    """An engine that sleeps in each mode, and one sleep that is taken back."""
    engine = RecordedEngine(plain(), path, salt=SALT)
    commands = arrivals(Load(requests=50, seconds=2.0), 16)
    for at, mode in ((0.3, SleepMode.KEEP), (0.9, SleepMode.WAIT), (1.5, "abort")):
        commands.append((at, engine.call(Sleep(mode=SleepMode(mode)))))
        commands.append((at + 0.3, engine.call(WakeUp())))
    commands.append((1.9, engine.call(Sleep(mode=SleepMode.WAIT))))
    commands.append((1.91, engine.call(WakeUp())))
    engine.serve(commands)
    engine.close()


@scenario
def resets(path: Path) -> None:
    """Resets of the prefix cache, with and without that of running requests."""
    engine = RecordedEngine(plain(), path, salt=SALT)
    commands = arrivals(Load(), 17)
    for number in range(8):
        reset = ResetPrefixCache(reset_running_requests=number % 2 == 1)
        commands.append((0.2 * number, engine.call(reset)))
    engine.serve(commands)
    engine.close()


@scenario
def steps_ahead(path: Path) -> None:
    """Steps that are planned before the results of those ahead are there."""
    core = plain(
        limits(async_scheduling=True), cache=CacheConfig(num_kv_blocks=60, block_size=4)
    )
    serve(path, core, arrivals(Load(), 18))


@scenario
def pipeline(path: Path) -> None:
    """Three stages of a pipeline, whose batches divide the requests."""
    core = plain(stages=3, cache=CacheConfig(num_kv_blocks=60, block_size=4))
    serve(path, core, arrivals(Load(), 19))


@scenario
def uncached_prompts(path: Path) -> None:
    """Prompts whose every position is computed, beside others."""

    def change(request: GenerateRequest, source: random.Random) -> GenerateRequest:
        skips = source.random() < 0.5
        salt = source.choice((None, "a", "b"))
        return msgspec.structs.replace(
            request, skip_reading_prefix_cache=skips, cache_salt=salt
        )

    serve(path, plain(), arrivals(Load(), 20, change))


@scenario
def no_prefix_cache(path: Path) -> None:
    """An engine that keeps no prefixes."""
    cache = CacheConfig(num_kv_blocks=24, block_size=8, enable_prefix_caching=False)
    serve(path, plain(cache=cache), arrivals(Load(), 21))


@scenario
def embeddings(path: Path) -> None:
    """Prompts that are pooled, beside others that generate."""

    def change(request: GenerateRequest, source: random.Random) -> GenerateRequest:
        return msgspec.structs.replace(request, is_prefill_only=source.random() < 0.6)

    core = plain(
        wrap=lambda inner: ChangedResults(inner, Embedding({})),
        extensions={POOLING: RecordedPooling()},
    )
    serve(path, core, arrivals(Load(prompt_tokens=90), 22, change))


@scenario
def waited_transfers(path: Path) -> None:
    """Requests wait for KV of a connector, some of whose loads fail or come late."""
    faults = Faults(fails=0.2, forgets=0.1, late=0.1, raises=0.02)
    store = DictStore(is_async=True, keeps=True, delay_seconds=0.02, faults=faults)
    serve_connected(path, store, 24)


@scenario
def transfers_in_steps(path: Path) -> None:
    """Steps load KV of a connector, some of whose loads fail."""
    faults = Faults(fails=0.2, raises=0.02)
    store = DictStore(saves_evicted=True, faults=faults)
    serve_connected(path, store, 25)


def serve_connected(path: Path, store: DictStore, seed: int) -> None:
    engine = connected_core(store, num_blocks=32)
    load = Load(requests=60, seconds=1.0, prompt_tokens=20, output_tokens=12)
    commands = arrivals(load, seed)
    commands += [(0.03 * each, finish(each)) for each in range(1, 60, 7)]
    serve(path, engine.core, commands)


@scenario
def several_engines(path: Path) -> None:
    """Two engines behind two front ends: the first one's file, and `.1` beside it."""

    def tap(core: EngineCore) -> object:
        index = core.facts.engine_index
        own = path if not index else path.with_name(f"{path.stem}_{index}{path.suffix}")
        return recorder_of(core, own, content=Content.HASHES, salt=SALT)

    spec = ClusterSpec(
        engines=2,
        front_ends=2,
        cache_blocks=600,
        max_num_seqs=4,
        tap=tap,  # type: ignore[arg-type]
    )
    cluster = Cluster(spec, Uniform(20.0, 23), seed=23)
    cluster.serve(40)
    for index in range(2):
        cluster.end_engine(index)
