"""Executors are plugins, chosen by name."""

from collections.abc import Iterator

import pytest

from hookline import LLM, ConfigError, SamplingParams
from hookline.clock import VirtualClock
from hookline.config import EngineConfig, ExecutorConfig, ModelConfig, SchedulerConfig
from hookline.engine_setup.executor_factory import RUNS_MODEL, load_executor_factory
from hookline.startup_timer import StartupTimer
from hookline_testing import PluginSite
from hookline_testing.oracle import Oracle

GROUP = "hookline.executors"
COUNTING = """
from hookline.engine_setup.executor_factory import ExecutorFactory
from hookline_simulated.factory import create as create_simulated

built = []

def create(context):
    built.append(context.config.executor.name)
    return create_simulated(context)

FACTORY = ExecutorFactory(create)
"""


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginSite]:
    with PluginSite(tmp_path_factory.mktemp("site")) as site:
        yield site


def test_an_installed_executor_is_used(llama: Oracle, site: PluginSite) -> None:
    """Of whatever distribution; it gets the engine's whole configuration."""
    site.install("counting", COUNTING, group=GROUP, attribute="FACTORY")
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        executor=ExecutorConfig(name="counting"),
    )

    with LLM.from_config(config) as llm:
        [output] = llm.generate([[5, 6, 7]], SamplingParams(max_tokens=4))
        facts = llm.front_end.facts

    assert len(output.outputs[0].token_ids) == 4
    assert facts.executor == "counting"
    assert site.module("counting").built == ["counting"]


@pytest.mark.parametrize("name", ["nautilus", ""])
def test_an_unknown_executor_is_refused(name: str) -> None:
    """The error lists what is installed."""
    with pytest.raises(ConfigError, match=r"executor: .*simulated, uniproc"):
        load_executor_factory(name)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import nothing_of_that_name", "nothing_of_that_name"),
        ("FACTORY = print", "is not an ExecutorFactory"),
    ],
)
def test_a_broken_executor_is_refused(
    site: PluginSite, source: str, reason: str
) -> None:
    """The error has the reason."""
    site.install("broken", source, group=GROUP, attribute="FACTORY")

    with pytest.raises(ConfigError, match=f"executor: .*{reason}"):
        load_executor_factory("broken")


@pytest.mark.parametrize(
    ("scheduler", "on_cpu", "on_gpu"),
    [
        (SchedulerConfig(), 2048, 8192),
        (SchedulerConfig(max_num_seqs=4096), 4096, 8192),
        (SchedulerConfig(max_num_seqs=9000), 9000, 9000),
        (SchedulerConfig(max_num_batched_tokens=300), 300, 300),
    ],
)
def test_options_without_a_value_suit_the_device(
    scheduler: SchedulerConfig,
    on_cpu: int,
    on_gpu: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps on a GPU have more tokens, unless their number is given."""
    config, timer = EngineConfig(scheduler=scheduler), StartupTimer(VirtualClock())
    executor = load_executor_factory("uniproc")
    for is_gpu, expected in ((False, on_cpu), (True, on_gpu)):
        monkeypatch.setattr("hookline_models.uniproc.import_torch", lambda _: is_gpu)  # noqa: B023
        resolved = executor.resolve(config, timer)
        assert resolved.scheduler.tokens_per_step == expected


def test_executors_without_torch_take_a_configuration_as_it_is() -> None:
    """The process of `mp` and `simulated` looks for no GPU."""
    config, timer = EngineConfig(), StartupTimer(VirtualClock())
    for name in ("mp", "simulated"):
        assert load_executor_factory(name).resolve(config, timer) is config


def test_only_executors_with_a_model_offer_all_that_proposers_need() -> None:
    """What they offer is known before either is built."""
    assert load_executor_factory("uniproc").capabilities == RUNS_MODEL
    simulated = load_executor_factory("simulated").capabilities
    assert not simulated.hidden_states
    assert not simulated.draft_trees


@pytest.mark.parametrize(
    ("options", "on_gpu"),
    [
        ({}, True),
        ({"async_scheduling": False}, False),
        ({"speculative_config": {"method": "ngram"}}, False),
    ],
)
def test_steps_on_gpus_are_started_ahead_unless_something_drafts(
    options: dict[str, object], on_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On CPUs they are not, unless that is asked for."""
    config = EngineConfig.from_options(**options)
    executor, timer = load_executor_factory("uniproc"), StartupTimer(VirtualClock())
    found = []
    for is_gpu in (False, True):
        monkeypatch.setattr("hookline_models.uniproc.import_torch", lambda _: is_gpu)  # noqa: B023
        found.append(executor.resolve(config, timer).num_steps_ahead)

    assert found == [0, int(on_gpu)]
