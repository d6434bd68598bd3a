"""A stat logger can hurt neither the engine nor another logger."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass

import msgspec
import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig, ModelConfig, ObserverConfig
from hookline.pages import PageHandler, PageRequest
from hookline.payloads import StepFinished
from hookline_registry import BrokenPluginError, LaneStats
from hookline_testing import PluginSite, assert_conserved
from hookline_testing.collected_routes import CollectedRoutes
from hookline_testing.oracle import Oracle

OUTPUT_TOKENS = 150
PROMPTS = [[7, 8, 9], list(range(40)), list(range(30, 75)), [1]]
PARAMS = [
    SamplingParams(max_tokens=OUTPUT_TOKENS, temperature=0.0),
    SamplingParams(max_tokens=OUTPUT_TOKENS // 2, seed=1),
    SamplingParams(max_tokens=OUTPUT_TOKENS, seed=2, top_k=40),
    SamplingParams(max_tokens=3, temperature=0.0),
]

HOSTILE = """
import threading
import time

from hookline import hookimpl

release = threading.Event()
held = []


def harm():
    {harm}


@hookimpl
def engine_started(started):
    harm()


@hookimpl
def requests_queued(queued):
    harm()


@hookimpl
def tokens_generated(generated):
    harm()


@hookimpl
def step_finished(step):
    harm()


@hookimpl
def state_changed(state):
    harm()


@hookimpl
def engine_stopped(stopped):
    harm()
"""
FAILING = {
    "raises": "raise RuntimeError('broken on purpose')",
    "exits": "raise SystemExit(3)",
}
HANGING = {"sleeps": "release.wait(10)", "blocks": "release.wait()"}
ALLOCATING = {"allocates": "held[:] = [bytes(64 * 2**20)]"}


OF_THIS_RUN = {"at", "lanes", "clock", "times", "startup", "config_hash"}


@dataclass(frozen=True)
class Run:
    """What came of a run: all of it but times and the hash of the options.

    Attributes:
        tokens: Of each prompt's completion.
        steps: Each step's number, and the tokens it computed for each request.
        told: What the recorder was told.
        metrics: Counts on the Prometheus page.
        lanes: State of the lanes once all was closed.
        is_flushed: Whether all lanes got through before the close.
    """

    tokens: list[list[int]]
    steps: list[tuple[int, Sequence[tuple[int, int]]]]
    told: list[object]
    metrics: dict[str, float]
    lanes: dict[str, LaneStats]
    is_flushed: bool


@pytest.fixture(scope="module")
def peaceful(llama: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run to compare with: no hostile logger."""
    with PluginSite(tmp_path_factory.mktemp("peaceful")) as site:
        site.install_recorder()
        return run(site, llama)


def run(site: PluginSite, oracle: Oracle, *hostile: str) -> Run:
    """Generates with the hostile loggers first, a recorder and Prometheus behind."""
    observers = ObserverConfig(
        stat_loggers=(*hostile, "recorder", "prometheus"),
        lane_batches=64,
        heartbeat_seconds=3600,
    )
    config = EngineConfig(
        model=ModelConfig(model=str(oracle.folder)), observers=observers
    )
    offered = CollectedRoutes()
    llm = LLM.from_config(config)
    try:
        llm.front_end.observers.add_routes(lambda _: offered)
        outputs = llm.generate(PROMPTS, PARAMS)
        assert_conserved(llm)
        is_flushed = llm.flush(0.5 if hostile else 5.0)
    finally:
        llm.close()
    lanes = {lane.name: lane for lane in llm.front_end.observers.lanes}
    calls = site.calls()
    return Run(
        tokens=[output.outputs[0].token_ids for output in outputs],
        steps=[
            (step.record.step, step.record.request_tokens)
            for _, step in calls
            if isinstance(step, StepFinished)
        ],
        told=[(hook, timeless(payload)) for hook, payload in calls],
        metrics=counts(offered.pages["/metrics"]),
        lanes=lanes,
        is_flushed=is_flushed,
    )


def timeless(value: object) -> object:
    """The value without its times; of seconds only how many there are.

    It also lacks the hash of the options, among which are the loggers.
    """
    if isinstance(value, msgspec.Struct):
        return {
            name: timeless(getattr(value, name))
            for name in value.__struct_fields__
            if name not in {"at", "wall", "monotonic"}
            and not name.endswith(("_at", "_ns"))
        }
    if is_dataclass(value):
        return {
            field.name: timeless(getattr(value, field.name))
            for field in fields(value)
            if field.name not in OF_THIS_RUN and not is_seconds(field.name)
        } | {
            "inter_tokens": sum(
                count for _, count in getattr(value, "inter_token_seconds", ())
            )
        }
    if isinstance(value, list | tuple):
        return [timeless(item) for item in value]
    return value


def is_seconds(name: str) -> bool:
    return name.endswith(("seconds", "_ns"))


def counts(page: PageHandler) -> dict[str, float]:
    """Counters and histogram counts of the engine by series, without those of time."""
    text = page(PageRequest(headers={}, query={})).body.decode()
    found = {}
    for line in text.splitlines():
        series, _, value = line.rpartition(" ")
        name = series.partition("{")[0]
        if (
            name.startswith(("hookline_", "vllm:"))
            and name.endswith(("_total", "_count"))
            and "logger" not in name
            and not name.endswith("seconds_total")
        ):
            found[series] = float(value)
    return found


def assert_same(run: Run, peaceful: Run) -> None:
    """Tokens, steps and numbers are unaffected by the hostile logger."""
    assert run.tokens == peaceful.tokens
    assert run.steps == peaceful.steps
    assert run.told == peaceful.told
    assert run.metrics == peaceful.metrics
    for name in ("recorder", "prometheus"):
        assert run.lanes[name].dropped == run.lanes[name].errors == 0
        assert run.lanes[name].delivered == peaceful.lanes[name].delivered


def test_the_run_to_compare_with_is_complete(peaceful: Run) -> None:
    """The numbers compared below are not empty, and agree with the outputs."""
    tokens = sum(len(output) for output in peaceful.tokens)

    generated = [
        value
        for series, value in peaceful.metrics.items()
        if series.startswith("hookline_generation_tokens_total")
    ]
    assert generated == [tokens]
    assert len(peaceful.steps) == OUTPUT_TOKENS
    assert peaceful.is_flushed


@pytest.mark.parametrize("name", FAILING)
def test_logger_that_fails_is_switched_off(
    name: str, site: PluginSite, llama: Oracle, peaceful: Run
) -> None:
    """Errors, even SystemExit, are counted, open the breaker and change nothing."""
    site.install(name, HOSTILE.format(harm=FAILING[name]))

    result = run(site, llama, name)

    assert_same(result, peaceful)
    lane = result.lanes[name]
    assert lane.errors >= 5
    assert lane.breaker == "open"
    assert lane.dropped > 0
    assert lane.delivered + lane.dropped == peaceful.lanes["recorder"].delivered
    assert lane.last_error is not None
    assert ": " in lane.last_error


@pytest.mark.timeout(60)
def test_loggers_that_hang_are_left_behind(
    site: PluginSite, llama: Oracle, peaceful: Run
) -> None:
    """While they hang all tokens come; what they cannot take is dropped and counted,
    and closing the engine does not wait for them."""
    for name, harm in HANGING.items():
        site.install(name, HOSTILE.format(harm=harm))

    result = run(site, llama, *HANGING)
    for name in HANGING:
        site.module(name).release.set()

    assert_same(result, peaceful)
    assert not result.is_flushed
    lane = result.lanes["blocks"]
    assert lane.delivered == lane.depth == lane.errors == 0
    # All but the batch that it holds.
    assert lane.dropped == peaceful.lanes["recorder"].delivered - 1
    assert result.lanes["sleeps"].dropped > 0
    assert result.lanes["sleeps"].depth == 0


def test_logger_that_allocates_is_served_like_any(
    site: PluginSite, llama: Oracle, peaceful: Run
) -> None:
    """64 MiB a call are that logger's own affair."""
    [(name, harm)] = ALLOCATING.items()
    site.install(name, HOSTILE.format(harm=harm))

    result = run(site, llama, name)

    assert_same(result, peaceful)
    lane = result.lanes[name]
    assert lane.errors == 0
    assert lane.delivered + lane.dropped == peaceful.lanes["recorder"].delivered


def test_logger_that_cannot_be_made_is_refused_at_start(
    site: PluginSite, llama: Oracle
) -> None:
    """An error in create_stat_logger names plugin, distribution and cause, and no
    engine and no thread is left over."""
    site.install(
        "stillborn",
        "from hookline import hookimpl\n\n\n"
        "@hookimpl\n"
        "def create_stat_logger(context):\n"
        "    raise LookupError('no database')\n",
    )
    observers = ObserverConfig(stat_loggers=("recorder", "stillborn"))
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)), observers=observers
    )
    before = set(threading.enumerate())

    with pytest.raises(BrokenPluginError) as caught:
        LLM.from_config(config)

    assert "dist-stillborn 1.0" in str(caught.value)
    assert "LookupError: no database" in str(caught.value)
    assert set(threading.enumerate()) <= before
