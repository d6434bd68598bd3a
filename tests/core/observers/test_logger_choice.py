"""Which stat loggers listen is chosen by name, and nothing else is imported."""

import threading

import pytest

from hookline import LLM, ConfigError, SamplingParams
from hookline.config import EngineConfig, ExecutorConfig, ObserverConfig
from hookline_registry import BrokenPluginError, LaneStats, UnknownPluginError
from hookline_testing import PluginSite

SIMULATED = ExecutorConfig(name="simulated")
ECHO = """
class Echo:
    from hookline import hookimpl

    seen = []

    def __init__(self, context):
        self.seen.append((context.name, dict(context.options)))

    @hookimpl
    def engine_started(self, started):
        self.seen.append(started.facts.model_name)
"""


def start(observers: ObserverConfig) -> LLM:
    return LLM.from_config(EngineConfig(executor=SIMULATED, observers=observers))


def lanes_of(llm: LLM) -> tuple[LaneStats, ...]:
    return llm.front_end.observers.lanes


def test_no_logger_means_no_lane_and_no_thread() -> None:
    """Without loggers nobody is told and no thread is started; this is what
    `--stat-logger none` gives."""
    before = set(threading.enumerate())

    with start(ObserverConfig()) as llm:
        llm.generate("def f():", SamplingParams(max_tokens=4))
        after = set(threading.enumerate())
        lanes = lanes_of(llm)
        is_flushed = llm.flush(0)

    assert lanes == ()
    assert is_flushed
    assert not [t for t in after - before if t.name.startswith("hookline-lane")]


def test_unknown_logger_lists_what_is_installed(site: PluginSite) -> None:
    """An unknown name is an error that lists the installed ones."""
    site.install("present", "")

    with pytest.raises(UnknownPluginError) as caught:
        start(ObserverConfig(stat_loggers=("absent",)))

    assert "'absent'" in str(caught.value)
    assert "present" in caught.value.installed
    assert "recorder" in str(caught.value)


def test_logger_that_does_not_import_names_its_distribution(site: PluginSite) -> None:
    """The error names the logger's distribution and its import's exception."""
    site.install("broken", "import no_such_module_at_all\n")

    with pytest.raises(BrokenPluginError) as caught:
        start(ObserverConfig(stat_loggers=("broken",)))

    assert "dist-broken 1.0" in str(caught.value)
    assert "no_such_module_at_all" in str(caught.value)
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_misspelt_hook_of_a_logger_suggests_the_right_one(site: PluginSite) -> None:
    """An unknown hook is an error at start."""
    site.install(
        "misspelt",
        "from hookline import hookimpl\n\n\n@hookimpl\ndef step_finnished(step): ...\n",
    )

    with pytest.raises(BrokenPluginError, match="did you mean 'step_finished'"):
        start(ObserverConfig(stat_loggers=("misspelt",)))


def test_logger_that_was_not_named_is_not_imported(site: PluginSite) -> None:
    """An installed logger that would break the process does not, unless chosen."""
    site.install("bomb", "raise SystemExit('imported')\n")

    with start(ObserverConfig(stat_loggers=("recorder",))) as llm:
        names = [lane.name for lane in lanes_of(llm)]

    assert names == ["recorder"]


@pytest.mark.usefixtures("site")
def test_options_of_a_logger_that_was_not_chosen_are_an_error() -> None:
    """An option without a reader is refused."""
    observers = ObserverConfig(
        stat_loggers=("recorder",), options={"logging": {"interval": "1"}}
    )

    with pytest.raises(ConfigError, match="'logging' was not chosen") as caught:
        start(observers)

    assert caught.value.option == "stat-logger-option"


def test_class_from_the_path_is_a_logger_with_options(site: PluginSite) -> None:
    """`module:Class` needs no entry point; the class gets the context."""
    site.install("echo_module", ECHO)
    path = "echo_module:Echo"
    observers = ObserverConfig(stat_loggers=(path,), options={path: {"key": "value"}})

    with start(observers) as llm:
        assert llm.flush(5)
        lanes = lanes_of(llm)

    assert site.module("echo_module").Echo.seen == [(path, {"key": "value"}), "demo"]
    assert [lane.name for lane in lanes] == [path]


def test_logger_named_twice_listens_once(site: PluginSite) -> None:
    """A repeated name is the same logger."""
    with start(ObserverConfig(stat_loggers=("recorder", "recorder"))) as llm:
        names = [lane.name for lane in lanes_of(llm)]

    hooks = [hook for hook, _ in site.calls()]
    assert names == ["recorder"]
    assert hooks.count("engine_started") == hooks.count("engine_stopped") == 1


DECLARING = """
from hookline import hookimpl

@hookimpl
def add_cli_options(options):
    options.add("seconds", help="how often")

@hookimpl
def engine_started(started):
    pass
"""


def test_undeclared_option_of_a_logger_is_an_error(site: PluginSite) -> None:
    """A logger that declares its options is given no others; the nearest is named."""
    site.install("careful", DECLARING)

    with start(
        ObserverConfig(stat_loggers=("careful",), options={"careful": {"seconds": "1"}})
    ):
        pass
    with pytest.raises(ConfigError, match=r"'second'; did you mean seconds") as caught:
        start(
            ObserverConfig(
                stat_loggers=("careful",), options={"careful": {"second": "1"}}
            )
        )

    assert caught.value.option == "careful.second"
