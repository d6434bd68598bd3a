"""Options from the environment, beside those of the command line and a file."""

from pathlib import Path

import pytest

from hookline.config import EngineConfig
from hookline_server.cli import main
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.arguments import engine_config, read_arguments
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.options.server import server_options
from hookline_server.settings import ServerSettings

OPTIONS = [*server_options(), *engine_options()]


def config(*argv: str) -> EngineConfig:
    read = read_arguments("serve", "Serves.", OPTIONS, argv, default_loggers=())
    return engine_config(read, in_process=False)


def test_the_nearest_source_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line goes before variables, these before the file, it before all."""
    file = tmp_path / "serve.yaml"
    file.write_text("max_num_seqs: 1\nblock_size: 2\nport: 3\nseed: 4\n")
    monkeypatch.setenv("HOOKLINE_CONFIG", str(file))
    monkeypatch.setenv("HOOKLINE_MAX_NUM_SEQS", "5")
    monkeypatch.setenv("HOOKLINE_BLOCK_SIZE", "6")

    read = read_arguments(
        "serve", "Serves.", OPTIONS, ["--max-num-seqs=7"], default_loggers=()
    )
    made = engine_config(read, in_process=False)

    assert made.scheduler.max_num_seqs == 7
    assert made.cache.block_size == 6
    assert read.make("server", ServerSettings).port == 3
    assert made.model.seed == 4
    assert made.model.dtype == EngineConfig().model.dtype


def test_each_kind_of_option_has_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches, lists, mappings, JSON, sizes, options of loggers, names of vLLM."""
    variables = {
        "HOOKLINE_ENABLE_CHUNKED_PREFILL": "0",
        "HOOKLINE_ENFORCE_EAGER": "True",
        "HOOKLINE_KV_CACHE_METRICS": "yes",
        "HOOKLINE_STAT_LOGGER": "logging,request_log",
        "HOOKLINE_LOGGING_INTERVAL": "9",
        "HOOKLINE_STAT_LOGGER_OPTION": '{"request_log": {"path": "/x"}}',
        "HOOKLINE_SPECULATIVE_CONFIG": '{"method": "ngram"}',
        "HOOKLINE_KV_CACHE_MEMORY_BYTES": "8G",
        "HOOKLINE_THREADS": "",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    made = config()

    assert not made.scheduler.enable_chunked_prefill
    assert made.executor.enforce_eager
    assert made.cache.residency_sample == 0.01
    assert made.observers.stat_loggers == ("logging", "request_log")
    assert made.observers.options == {
        "logging": {"interval": "9"},
        "request_log": {"path": "/x"},
    }
    assert made.speculative == {"method": "ngram"}
    assert made.cache.kv_cache_memory == 8 * 2**30
    assert made.executor.threads is None


def test_a_switch_for_a_value_wins_over_a_lower_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`--kv-cache-metrics` stands for a fraction, which a variable does not keep."""
    monkeypatch.setenv("HOOKLINE_KV_CACHE_METRICS_SAMPLE", "0.5")

    assert config("--kv-cache-metrics").cache.residency_sample == 0.01
    assert config("--disable-log-stats").observers.stat_loggers == ()


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("HOOKLINE_PORT", "x", "HOOKLINE_PORT: argument --port: 'x' is not a whole"),
        ("HOOKLINE_IN_PROCESS", "maybe", "HOOKLINE_IN_PROCESS: 'maybe' is neither"),
        ("HOOKLINE_DTYPE", "int3", "HOOKLINE_DTYPE: argument --dtype: invalid choice"),
    ],
)
def test_wrong_variable_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, complaint: str
) -> None:
    """The error names the variable."""
    monkeypatch.setenv(name, value)

    with pytest.raises(UsageError, match=complaint):
        config()


def test_unknown_variables_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt one with the nearest name; neither links nor a plugin's own."""
    for name in ("PORT", "X_PORT", "METRICS_PORT"):
        monkeypatch.setenv(f"HOOKLINE_{name}", "tcp://10.0.0.1:80")
    monkeypatch.setenv("HOOKLINE_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("HOOKLINE_PORT_80_TCP_ADDR", "10.0.0.1")
    monkeypatch.setenv("HOOKLINE_CPU_ISA", "avx2")
    monkeypatch.setenv("HOOKLINE_N", "2")  # of generate
    monkeypatch.setenv("HOOKLINE_PROMETHEUS_OWN", "x")
    monkeypatch.setenv("HOOKLINE_MAX_NUM_SEQ", "3")
    monkeypatch.setenv("HOOKLINE_FROBNICATION", "3")

    config()
    told = sorted(capsys.readouterr().err.splitlines())

    assert len(told) == 2
    assert told[0].endswith("HOOKLINE_FROBNICATION is no option of Hookline")
    assert told[1].endswith("; did you mean HOOKLINE_MAX_NUM_SEQS?")
    with pytest.raises(UsageError, match="HOOKLINE_MAX_NUM_SEQ is no option"):
        config("--fail-on-environ-validation")


def test_file_has_the_habits_of_vllm(tmp_path: Path) -> None:
    """Other names, what is so anyway, keys of JSON with dots, words of values."""
    file = tmp_path / "serve.yaml"
    file.write_text(
        "gpu_memory_utilization: 0.5\nnum-gpu-blocks-override: 8\ndtype: half\n"
        "disable-log-stats: true\nenable-mm-embeds: false\ndisable-log-requests: true\n"
        "speculative-config.method: ngram\nspeculative-config.words: [a, b]\n"
        "max_num_batched_tokens: 8k\ntensor_parallel_size: 1\n"
    )

    made = config(f"--config={file}")

    assert made.cache.num_kv_blocks == 8
    assert made.model.dtype == "float16"
    assert made.scheduler.max_num_batched_tokens == 8000
    assert made.observers.stat_loggers == ()
    assert made.speculative == {"method": "ngram", "words": ["a", "b"]}


@pytest.mark.parametrize(
    ("topic", "shown", "absent"),
    [
        ("", "--help=GROUP", "Maximum number of requests per step"),
        ("=scheduler", "Maximum number of requests per step", "--block-size"),
        ("=SchedulerConfig", "--scheduling-policy", "--block-size"),
        ("=max_num_seqs", "--max-num-seqs", "--max-num-batched-tokens"),
        ("=seqs", "--max-num-seqs", "--max-model-len"),
        ("=num-gpu-blocks-override", "--num-kv-blocks", "--block-size"),
        ("=all", "--block-size", "--help=GROUP"),
        ("=lora-dtype", "--lora-dtype is not an option of Hookline", "usage"),
        ("=sglang", "--page-size = --block-size", "usage"),
    ],
)
def test_help_shows_what_is_asked(
    capsys: pytest.CaptureFixture[str], topic: str, shown: str, absent: str
) -> None:
    """Groups by default; one of them, an option, or everything if named."""
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--stat-logger=none", f"--help{topic}"])

    text = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert shown in text
    assert absent not in text


def test_help_of_nothing_suggests(capsys: pytest.CaptureFixture[str]) -> None:
    """A topic that is nothing is an error with the nearest one."""
    assert main(["serve", "--help=max-num-seq-s"]) == 2
    assert "did you mean max-num-seqs?" in capsys.readouterr().err
