"""Options of observers: what is observed, under which names."""

from pathlib import Path

import pytest

from hookline.config import DetailedTrace, EngineConfig
from hookline.request import Slo
from hookline_metrics.config import MetricsConfig
from hookline_server.cli import main
from hookline_server.cli.options.arguments import (
    Arguments,
    engine_config,
    read_arguments,
)
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.options.implied import completed
from hookline_server.cli.options.loggers import loggers_in_use
from hookline_server.cli.options.server import server_options

OPTIONS = [*server_options(), *engine_options()]


def config(*argv: str) -> EngineConfig:
    arguments = read_arguments("serve", "Serves.", OPTIONS, argv, default_loggers=())
    return engine_config(arguments, in_process=False)


def test_metrics_options_reach_their_settings() -> None:
    """
    Options of the metrics are put together, repeated or separated by commas.
    """
    made = MetricsConfig.of(
        config(
            "--metrics-dialect=hookline,vllm",
            "--metrics-dialect=sglang",
            '--histogram-buckets={"time_to_first_token": [0.1, 1]}',
            '--histogram-buckets={"step_duration": [1]}',
            "--include-metrics=hookline_*, vllm:*",
            "--exclude-metrics=hookline_*_seconds",
            "--metrics-label=zone=eu=1",
            "--metrics-label=pod=a",
            "--show-hidden-metrics-for-version=0.1",
        )
    )

    assert made.dialects == ("hookline", "vllm", "sglang")
    assert made.histogram_buckets == {
        "time_to_first_token": (0.1, 1.0),
        "step_duration": (1.0,),
    }
    assert made.include == ("hookline_*", "vllm:*")
    assert made.exclude == ("hookline_*_seconds",)
    assert made.labels == {"zone": "eu=1", "pod": "a"}
    assert made.show_hidden_for_version == "0.1"


def test_observer_options_reach_their_settings() -> None:
    """
    Objectives, detailed traces, residency and prompts can be asked for.
    """
    made = config(
        "--slo=ttft=0.5,e2e=10",
        "--collect-detailed-traces=model,worker",
        "--kv-cache-metrics-sample=0.5",
        "--keep-prompts",
    )

    assert made.observers.slo == Slo(ttft=0.5, e2e=10.0)
    assert made.observers.detailed_traces == (
        DetailedTrace.MODEL,
        DetailedTrace.WORKER,
    )
    assert made.cache.residency_sample == 0.5
    assert made.observers.keep_prompts


@pytest.mark.parametrize(
    ("argv", "sample"),
    [
        ([], 0),
        (["--kv-cache-metrics"], 0.01),
        (["--kv-cache-metrics", "--kv-cache-metrics-sample=1"], 1),
        (["--kv-cache-metrics", "--kv-cache-metrics-sample=0"], 0),
    ],
)
def test_residency_is_sampled_if_enabled(argv: list[str], sample: float) -> None:
    """
    The switch measures a hundredth of the blocks unless a share is given.
    """
    assert config(*argv).cache.residency_sample == sample


@pytest.mark.parametrize(
    ("argv", "most"),
    [
        ([], 0),
        (["--tenant-header=X-Tenant"], 50),
        (["--tenant-header=X-Tenant", "--tenant=a", "--tenant=b"], 2),
        (["--tenant-header=X-Tenant", "--max-tenants=7"], 7),
        (["--tenant-header=X-Tenant", "--tenant=a", "--max-tenants=7"], 7),
        (["--tenant-header=X-Tenant", "--max-tenants=0"], 0),
    ],
)
def test_metrics_name_some_tenants(argv: list[str], most: int) -> None:
    """
    As many tenants are named as are listed, else 50, and none where there are none.
    """
    assert MetricsConfig.of(config(*argv)).max_tenants == most


def test_file_of_keys_means_tenants(tmp_path: Path) -> None:
    """
    Tenants' keys make metrics name tenants too.
    """
    file = tmp_path / "keys.json"
    file.write_text('{"key": "acme"}')

    made = config(f"--tenant-keys={file}", "--tenant=acme", "--tenant=umbrella")

    metrics = MetricsConfig.of(made)
    assert metrics.tenants == ("acme", "umbrella")
    assert metrics.max_tenants == 2


def test_file_can_set_all_options(tmp_path: Path) -> None:
    """
    A configuration file holds these options as values, lists and mappings.
    """
    file = tmp_path / "serve.yaml"
    file.write_text(
        "metrics_dialect: [hookline, 'vllm,sglang']\n"
        "histogram-buckets: {time_to_first_token: [0.1, 1]}\n"
        "metrics-label: {zone: eu, pod: 1}\n"
        "exclude-metrics: hookline_engine_info\n"
        "tenant-header: X-Tenant\n"
        "tenant: [a, b]\n"
        "slo: ttft=1\n"
        "kv-cache-metrics: true\n"
        "collect-detailed-traces: all\n"
    )

    made = config(f"--config={file}", "--metrics-label=zone=us")

    metrics = MetricsConfig.of(made)
    assert metrics.dialects == ("hookline", "vllm", "sglang")
    assert metrics.histogram_buckets == {"time_to_first_token": (0.1, 1.0)}
    assert metrics.labels == {"zone": "us"}
    assert metrics.exclude == ("hookline_engine_info",)
    assert (metrics.tenants, metrics.max_tenants) == (("a", "b"), 2)
    assert made.observers.slo == Slo(ttft=1.0)
    assert made.cache.residency_sample == 0.01
    assert made.observers.details(DetailedTrace.MODEL)


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--metrics-dialect=tgi"], "unknown dialect 'tgi'"),
        (["--metrics-dialect=vllm,,hookline"], "has an empty part"),
        (["--histogram-buckets={"], "not valid JSON"),
        (["--histogram-buckets=[1]"], 'must be an object {"NAME": [NUMBERS]}'),
        (['--histogram-buckets={"a": 1}'], "a must have a list of numbers"),
        (['--histogram-buckets={"a": ["1"]}'], "a: '1' is not a number"),
        (['--histogram-buckets={"a": [true]}'], "a: True is not a number"),
        (['--histogram-buckets={"a": [1]}'], "'a' is neither a histogram"),
        (
            ['--histogram-buckets={"step_duration": [2, 1]}'],
            "must be strictly increasing",
        ),
        (['--histogram-buckets={"step_duration": []}'], "positive and finite"),
        (['--histogram-buckets={"step_duration": [NaN]}'], "positive and finite"),
        (["--include-metrics=nope_*"], "'nope_*' matches no metric"),
        (["--exclude-metrics=nope"], "'nope' matches no metric"),
        (["--metrics-label=zone"], "'zone' is not KEY=VALUE"),
        (["--metrics-label=zone="], "'zone=' is not KEY=VALUE"),
        (["--metrics-label=a-b=c"], "'a-b' is not a valid label name"),
        (["--metrics-label=__a=c"], "'__a' is not a valid label name"),
        (["--metrics-label=le=c"], "'le' is already a label of a metric"),
        (["--metrics-label=engine=c"], "'engine' is already a label of a metric"),
        (["--show-hidden-metrics-for-version=x"], "'x' is not a version such as"),
        (["--slo=ttfb=1"], "names: ttft, tpot, e2e"),
        (["--slo=ttft=0"], "ttft must be a positive number of seconds"),
        (
            ["--collect-detailed-traces=gpu"],
            "'gpu' is not one of model, worker, all, none",
        ),
        (["--collect-detailed-traces=none,model"], "none excludes all other values"),
        (["--kv-cache-metrics-sample=2"], "kv-cache-metrics-sample: must be 0 to 1"),
        (["--otlp-traces-sample=0.5"], "requires --otlp-traces-endpoint"),
        (["--tenant=a"], "--tenant requires --tenant-header or --api-keys"),
        (
            ["--max-tenants=5"],
            "--max-tenants requires --tenant-header or",
        ),
        (["--tenant-header=X", "--max-tenants=-1"], "max-tenants: must be 0 to 100"),
        (["--tenant-header=X", "--max-tenants=x"], "'x' is not a whole number"),
        (["--tenant-header=X", "--tenant=a b"], "'a b' is not a tenant"),
        (["--tenant-header=X", "--tenant=other"], "'other' is reserved"),
        (
            ["--tenant-header=X", "--tenant=a", "--tenant=b", "--max-tenants=1"],
            "max-tenants: must be at least 2",
        ),
        (["--tenant-header=a b"], "tenant-header: 'a b' is not the name"),
        (["--metrics-host=::1"], "metrics-host: requires metrics-port"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_values_are_one_clear_line(
    capsys: pytest.CaptureFixture[str], argv: list[str], complaint: str
) -> None:
    """
    A value that makes no sense ends the command with one line and status 2.
    """
    status = main(["serve", "--stat-logger=none", *argv])

    error = capsys.readouterr().err
    assert status == 2
    assert error.startswith("hookline: error: ")
    assert error.count("\n") == 1
    assert complaint in error


def test_error_names_the_flag_that_was_typed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """
    An option that the engine knows by another name is named as on the command line.
    """
    argv = ["--otlp-traces-endpoint=http://c", "--otlp-traces-sample=2"]

    status = main(["serve", *argv])

    assert status == 2
    assert "otlp-traces-sample: must be 0 to 1, not 2" in capsys.readouterr().err


@pytest.mark.parametrize("signal", ["traces", "metrics"])
def test_endpoint_adds_otel_to_the_loggers(signal: str) -> None:
    """
    An endpoint adds the logger otel to those that are in use without it.
    """
    argv = [f"--otlp-{signal}-endpoint", "http://collector"]

    assert loggers_in_use([argv], ("logging",)) == ("logging", "otel")
    assert loggers_in_use([[*argv, "--stat-logger=a"]], ()) == ("a", "otel")
    assert loggers_in_use([[*argv, "--stat-logger=otel"]], ()) == ("otel",)
    assert loggers_in_use([[*argv, "--stat-logger=none"]], ("logging",)) == ("otel",)


def test_endpoint_in_a_file_chooses_otel(tmp_path: Path) -> None:
    """
    The configuration file chooses the logger as the command line does.
    """
    file = tmp_path / "serve.yaml"
    file.write_text("otlp_traces_endpoint: http://collector\n")

    assert loggers_in_use([["--config", str(file)]], ("a",)) == ("a", "otel")


@pytest.mark.parametrize(
    ("argv", "in_use"),
    [
        ((), ("prometheus", "logging")),
        (("request_log",), ("prometheus", "logging", "request_log")),
        (("logging", "request_log"), ("prometheus", "logging", "request_log")),
        (("none",), ()),
        (("none", "request_log"), ("request_log",)),
        (("request_log", "none"), ("request_log",)),
    ],
)
def test_named_loggers_are_added_unless_none_is_named(
    argv: tuple[str, ...], in_use: tuple[str, ...], tmp_path: Path
) -> None:
    """
    A named logger takes no default one away; `none` does, anywhere in the list.
    """
    defaults = ("prometheus", "logging")
    file = tmp_path / "serve.yaml"
    file.write_text(f"stat-logger: [{', '.join(argv)}]\n")

    typed = loggers_in_use([[f"--stat-logger={name}" for name in argv]], defaults)

    assert typed == loggers_in_use([["--config", str(file)]], defaults) == in_use


def test_typed_loggers_replace_those_of_a_file(tmp_path: Path) -> None:
    """
    The command line takes precedence over the file, and the defaults stay.
    """
    file = tmp_path / "serve.yaml"
    file.write_text("stat-logger: [none, request_log]\n")

    typed = loggers_in_use([[f"--config={file}", "--stat-logger=otel"]], ("logging",))

    assert typed == ("logging", "otel")


def test_endpoints_are_options_of_otel() -> None:
    """
    The endpoints are passed to the logger as its options.
    """
    given = {
        "logger.otel.traces_endpoint": "http://traces",
        "logger.otel.metrics_endpoint": "http://metrics",
    }

    made = engine_config(Arguments(completed(given), ("otel",)), in_process=False)

    assert made.observers.stat_loggers == ("otel",)
    assert made.observers.options["otel"] == {
        "traces_endpoint": "http://traces",
        "metrics_endpoint": "http://metrics",
    }


@pytest.mark.parametrize(
    ("given", "ratio"),
    [
        ({}, None),
        ({"logger.otel.metrics_endpoint": "http://c"}, None),
        ({"logger.otel.traces_endpoint": "http://c"}, 1.0),
        ({"config.observers.options": {"otel": {"traces_endpoint": "http://c"}}}, 1.0),
        (
            {
                "logger.otel.traces_endpoint": "http://c",
                "config.observers.trace_ratio": 0.25,
            },
            0.25,
        ),
    ],
)
def test_traces_are_accepted_if_exported(
    given: dict[str, object], ratio: float | None
) -> None:
    """
    An endpoint for traces, however configured, enables tracing.
    """
    made = engine_config(Arguments(completed(given), ("otel",)), in_process=False)

    assert made.observers.trace_ratio == ratio
