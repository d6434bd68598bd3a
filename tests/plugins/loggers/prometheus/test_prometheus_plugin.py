"""The prometheus plugin as Hookline meets it."""

import subprocess
from collections.abc import Callable

import pluggy
import pytest

import hookline_prometheus
from hookline import hookspecs
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline.pages import PageRequest
from hookline.payloads import EngineFailed, EngineStopped, HttpAnswered, LoggerContext
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_metrics import DIALECTS
from hookline_metrics.config import MetricsConfig
from hookline_prometheus import PrometheusLogger, create_stat_logger
from hookline_prometheus.options import HELP, Options
from hookline_testing.collected_routes import CollectedRoutes
from hookline_testing.debian_programs import needed_program
from hookline_testing.logger_plugins import DeclaredOptions, assert_hooks_exist
from hookline_testing.payloads import RECORD, make_started, make_state, make_step

MakeLogger = Callable[..., PrometheusLogger]
Feed = Callable[[PrometheusLogger], None]

FACTOR = "prometheus.native_histogram_bucket_factor"
MOST = "prometheus.native_histogram_max_buckets"

COLON = "metric names should not contain ':'"
NAMES_OF_OTHERS = {
    *(
        f"sglang:{name} metric name should not include type 'histogram'"
        for name in (
            "prompt_tokens_histogram",
            "uncached_prompt_tokens_histogram",
            "generation_tokens_histogram",
        )
    ),
    *(
        f"vllm:model_{part}_time_milliseconds use base unit "
        '"seconds" instead of "milliseconds"'
        for part in ("execute", "forward")
    ),
    *(
        f"vllm:avg_{kind}_throughput_toks_per_s metric names should not contain "
        "abbreviated units"
        for kind in ("prompt", "generation")
    ),
    *(
        f"sglang:{name} metric names should not contain abbreviated units"
        for name in ("kv_transfer_latency_ms", "kv_cache_memory_usage_gb")
    ),
    'vllm:iteration_tokens_total non-counter metrics should not have "_total" suffix',
    'sglang:lora_pool_slots_total non-counter metrics should not have "_total" suffix',
}
"""What promtool says about names that other engines chose; dashboards need them."""


def create(*dialects: str, **options: str) -> PrometheusLogger:
    """The logger as its hook makes it."""
    metrics = MetricsConfig(dialects=dialects or DIALECTS)
    config = EngineConfig(sections={"metrics": metrics})
    context = LoggerContext(name="prometheus", config=config, options=options)
    return create_stat_logger(context=context)


def manager(*plugins: object) -> pluggy.PluginManager:
    """A plugin manager that knows Hookline's hooks."""
    plugin_manager = pluggy.PluginManager("hookline")
    plugin_manager.add_hookspecs(hookspecs)
    for plugin in plugins:
        plugin_manager.register(plugin)
    return plugin_manager


def test_plugin_agrees_with_the_specs() -> None:
    """The module and its logger implement only hooks there are."""
    assert_hooks_exist(hookline_prometheus, create())


def test_hooks_reach_the_page() -> None:
    """The hooks' numbers are on /metrics, which the logger adds."""
    pages = CollectedRoutes()
    plugins = manager(create())
    plugins.hook.add_routes(routes=pages)

    plugins.hook.engine_started(started=make_started())
    plugins.hook.step_finished(step=make_step(scheduler=SchedulerStats(running=3)))
    state = make_state(scheduler=SchedulerStats(running=4), at=RECORD.ended_at)
    plugins.hook.state_changed(state=state)
    plugins.hook.http_answered(
        answered=HttpAnswered(exchanges=(), in_flight={("/v1/models", "GET"): 2})
    )

    page = pages.pages["/metrics"](PageRequest(headers={}, query={}))
    lines = page.body.decode().splitlines()
    assert 'vllm:num_requests_running{engine="0",model_name="tiny"} 4.0' in lines
    labels = 'method="GET",model_name="demo",route="/v1/models"'
    in_flight = f"hookline_http_requests_in_flight{{{labels}}} 2.0"
    assert in_flight in lines


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


@pytest.mark.parametrize("dialects", [("hookline",), ("vllm",), ("sglang", "hookline")])
def test_configuration_chooses_the_dialects(dialects: tuple[str, ...]) -> None:
    """The page has the families of the configured dialects."""
    logger = create(*dialects)
    logger.engine_started(make_started())

    page = logger.page(PageRequest(headers={}, query={})).body.decode()

    names = {
        line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")
    }
    found = {name.replace(":", "_").partition("_")[0] for name in names}
    assert found - {"process", "python"} == set(dialects)


def test_options_are_declared_with_their_defaults() -> None:
    """The command line offers the option, with what holds without it."""
    declared = DeclaredOptions()

    hookline_prometheus.add_cli_options(declared)

    assert declared.defaults == {
        "created_series": "false",
        "native_histogram_bucket_factor": "1.1",
        "native_histogram_max_buckets": "160",
    }
    options = {key: value for key, value in declared.defaults.items() if value}
    context = LoggerContext(name="prometheus", config=EngineConfig(), options=options)
    assert Options.read(context) == Options()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dialects": "vllm"},
            f"prometheus.dialects: no such option; options: {', '.join(HELP)}",
        ),
        (
            {"created_series": "yes"},
            "prometheus.created_series: must be true or false, not 'yes'",
        ),
        *(
            (
                {"native_histogram_bucket_factor": factor},
                f"{FACTOR}: must be a number from 1 to 65536, not {factor!r}",
            )
            for factor in ("0.9", "65537", "nan", "inf", "often", "")
        ),
        *(
            (
                {"native_histogram_max_buckets": count},
                f"{MOST}: must be a whole number from 8 to 100000, not {count!r}",
            )
            for count in ("7", "100001", "-160", "1e3", "9" * 20, "")
        ),
    ],
)
def test_bad_option_is_one_clear_error(options: dict[str, str], message: str) -> None:
    """An unknown option or value is an error that names what is possible."""
    with pytest.raises(ConfigError) as caught:
        create(**options)

    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["true", "false"])
def test_option_brings_created_samples(text: str) -> None:
    """The option decides whether a page in OpenMetrics has `_created` samples."""
    logger = create(created_series=text)
    logger.engine_started(make_started())
    headers = {"accept": "application/openmetrics-text"}

    page = logger.page(PageRequest(headers=headers, query={})).body

    assert (b"\nhookline_generation_tokens_created{" in page) is (text == "true")


def test_invalid_configuration_is_refused() -> None:
    """Metrics that do not exist are an error at the start."""
    with pytest.raises(ConfigError, match="metrics-dialect: unknown dialect 'klingon'"):
        create("klingon")


def complaints(logger: PrometheusLogger) -> set[str]:
    """What `promtool check metrics` says about the logger's page."""
    promtool = needed_program("promtool")
    page = logger.page(PageRequest(headers={}, query={})).body
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=page, capture_output=True, check=False
    )
    assert checked.returncode in {0, 3}, checked.stderr
    return {
        *checked.stdout.decode().splitlines(),
        *checked.stderr.decode().splitlines(),
    }


@pytest.mark.parametrize("dialects", [*((each,) for each in DIALECTS), DIALECTS])
def test_pages_pass_promtool(
    make_logger: MakeLogger, feed: Feed, dialects: tuple[str, ...]
) -> None:
    """
    `promtool check metrics` finds nothing but what other engines' names are; with
    names of Hookline alone, nothing at all.
    """
    logger = make_logger(*dialects)
    logger.engine_started(make_started())
    feed(logger)

    found = complaints(logger)

    others = {each for each in found if COLON not in each} - NAMES_OF_OTHERS
    colons = {each.split()[0].partition(":")[0] for each in found if COLON in each}
    assert others == set()
    assert colons == {*dialects} - {"hookline"}
