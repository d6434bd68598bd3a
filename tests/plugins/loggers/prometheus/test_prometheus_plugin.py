"""The prometheus plugin as Hookline meets it."""

import inspect
import shutil
import subprocess

import pluggy
import pytest

import hookline_prometheus
from hookline import hookspecs
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline.metrics.testing import make_started, make_state, make_step
from hookline.payloads import (
    EngineFailed,
    EngineStopped,
    LoggerContext,
    PageHandler,
    PageRequest,
)
from hookline.stats import SchedulerStats
from hookline_prometheus import PrometheusLogger, create_stat_logger

PROMTOOL = shutil.which("promtool")


class Pages:
    """Routes that only remember."""

    def __init__(self) -> None:
        self.handlers: dict[str, PageHandler] = {}

    def get(self, path: str, handler: PageHandler) -> None:
        self.handlers[path] = handler


class Declared:
    """Options that only remember."""

    def __init__(self) -> None:
        self.defaults: dict[str, str | None] = {}

    def add(self, key: str, *, help: str, default: str | None = None) -> None:  # noqa: A002
        assert help
        self.defaults[key] = default


def create(**options: str) -> PrometheusLogger:
    """The logger as its hook makes it."""
    return create_stat_logger(
        context=LoggerContext(name="prometheus", config=EngineConfig(), options=options)
    )


def manager(*plugins: object) -> pluggy.PluginManager:
    """A plugin manager that knows Hookline's hooks."""
    plugin_manager = pluggy.PluginManager("hookline")
    plugin_manager.add_hookspecs(hookspecs)
    for plugin in plugins:
        plugin_manager.register(plugin)
    return plugin_manager


def test_plugin_agrees_with_the_specs() -> None:
    """The module and its logger implement only hooks there are."""
    plugins = manager(hookline_prometheus, create())

    plugins.check_pending()

    for plugin in plugins.get_plugins():
        for caller in plugins.get_hookcallers(plugin) or []:
            assert caller.spec is not None
            expected = inspect.get_annotations(caller.spec.function, eval_str=True)
            for implementation in caller.get_hookimpls():
                found = inspect.get_annotations(implementation.function, eval_str=True)
                found.pop("return")
                assert found.items() <= expected.items()


def test_hooks_reach_the_page() -> None:
    """What the hooks tell stands on /metrics, which the logger adds itself."""
    pages = Pages()
    plugins = manager(create())
    plugins.hook.add_routes(routes=pages)

    plugins.hook.engine_started(started=make_started())
    plugins.hook.step_finished(step=make_step(scheduler=SchedulerStats(running=3)))
    plugins.hook.state_changed(state=make_state(scheduler=SchedulerStats(running=4)))

    page = pages.handlers["/metrics"](PageRequest(headers={}, query={}))
    line = 'vllm:num_requests_running{engine="0",model_name="tiny"} 4.0'
    assert line in page.body.decode().splitlines()


@pytest.mark.parametrize("end", ["failed", "stopped"])
def test_page_outlives_the_engine(end: str) -> None:
    """After its end an engine's gauges are 0 and the page is still served."""
    logger = create()
    plugins = manager(logger)
    plugins.hook.engine_started(started=make_started())
    plugins.hook.step_finished(step=make_step(scheduler=SchedulerStats(running=3)))

    if end == "failed":
        failed = EngineFailed(engine_index=0, reason="killed", open_requests=3)
        plugins.hook.engine_failed(failed=failed)
    else:
        stopped = EngineStopped(engine_index=0, reason="closed")
        plugins.hook.engine_stopped(stopped=stopped)

    page = logger.page(PageRequest(headers={}, query={}))
    line = 'hookline_requests_running{engine="0",model_name="tiny"} 0.0'
    assert line in page.body.decode().splitlines()


def test_option_is_declared_with_its_default() -> None:
    """The command line offers `dialects`, and both dialects are its default."""
    declared = Declared()

    manager(hookline_prometheus).hook.add_cli_options(options=declared)

    assert declared.defaults == {"dialects": "hookline,vllm"}


@pytest.mark.parametrize(
    ("text", "prefixes"),
    [
        ("hookline", {"hookline"}),
        (" vllm ", {"vllm"}),
        ("vllm, hookline,vllm", {"vllm", "hookline"}),
    ],
)
def test_dialects_are_chosen_by_name(text: str, prefixes: set[str]) -> None:
    """Each named dialect is exposed, once, spaces or not."""
    logger = create(dialects=text)
    logger.engine_started(make_started())

    page = logger.page(PageRequest(headers={}, query={})).body.decode()

    names = {
        line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")
    }
    found = {name.replace(":", "_").partition("_")[0] for name in names}
    assert found - {"process", "python"} == prefixes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dialects": "hookline,klingon"},
            "prometheus.dialects: unknown dialect 'klingon'; known: hookline, vllm",
        ),
        (
            {"dialects": ""},
            "prometheus.dialects: unknown dialect ''; known: hookline, vllm",
        ),
        (
            {"dialect": "vllm"},
            "prometheus.dialect: no such option; there is: dialects",
        ),
    ],
)
def test_wrong_option_is_one_clear_error(options: dict[str, str], message: str) -> None:
    """A dialect or an option that does not exist is named, with what there is."""
    with pytest.raises(ConfigError) as caught:
        create(**options)

    assert str(caught.value) == message


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_own_dialect_passes_promtool() -> None:
    """`promtool check metrics` finds nothing to say about the page."""
    assert PROMTOOL is not None
    logger = create(dialects="hookline")
    logger.engine_started(make_started())

    page = logger.page(PageRequest(headers={}, query={})).body
    checked = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=page, capture_output=True, check=False
    )

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
