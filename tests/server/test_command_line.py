"""The `hookline` command: options, files, errors and help."""

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from hookline.config import EngineConfig
from hookline_server.cli import main
from hookline_server.cli.dispatch import dispatch
from hookline_server.cli.options.arguments import (
    Arguments,
    engine_config,
    read_arguments,
)
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.options.option import Kind
from hookline_server.cli.options.server import server_options
from hookline_server.settings import ServerSettings
from hookline_simulated.config import SimulationConfig
from hookline_testing.plugin_site import PluginSite

OPTIONS = [*server_options(), *engine_options()]
SIMULATED = ["--executor=simulated", "--simulated-step-seconds=0"]


def read(*argv: str, default_loggers: tuple[str, ...] = ()) -> Arguments:
    return read_arguments(
        "serve", "Serves.", OPTIONS, argv, default_loggers=default_loggers
    )


def config(*argv: str) -> EngineConfig:
    return engine_config(read(*argv), in_process=False)


def test_no_arguments_means_the_defaults() -> None:
    """
    Without options the configuration is its own default, but for the command's wishes.
    """
    assert config() == EngineConfig(in_process=False)
    assert read().make("server", ServerSettings) == ServerSettings()


def test_options_reach_their_settings() -> None:
    """
    Options of every section end where they belong, with their types.
    """
    made = config(
        "--model=m",
        "--dtype=float32",
        "--kv-cache-memory=512MiB",
        "--kv-cache-prefault=16MiB",
        "--no-enable-prefix-caching",
        "--prefix-caching-hash-algo=blake2b",
        "--max-num-seqs=4",
        "--scheduling-policy=priority",
        "--executor=simulated",
        "--simulated-step-seconds=0.5",
        "--threads=2",
        "--in-process",
        "--heartbeat-seconds=2.5",
    )

    assert made.model.model == "m"
    assert made.model.dtype == "float32"
    assert made.cache.kv_cache_memory == 512 * 2**20
    assert made.cache.kv_cache_prefault == 16 * 2**20
    assert not made.cache.enable_prefix_caching
    assert made.cache.hash_algorithm == "blake2b"
    assert made.scheduler.max_num_seqs == 4
    assert made.scheduler.policy == "priority"
    assert made.executor.name == "simulated"
    assert SimulationConfig.of(made).step_seconds == 0.5
    assert made.executor.threads == 2
    assert made.in_process
    assert made.observers.heartbeat_seconds == 2.5


@pytest.mark.parametrize(
    "field", fields(SimulationConfig), ids=lambda field: field.name
)
def test_every_simulated_cost_has_an_option(field: object) -> None:
    """
    Each field of the simulation can be set.
    """
    name = getattr(field, "name", "")

    made = config(f"--simulated-{name.replace('_', '-')}=0.25")

    assert getattr(SimulationConfig.of(made), name) == 0.25


def test_speculation_is_configured_in_json_or_yaml(tmp_path: Path) -> None:
    """
    Keys that are of every method are read, the others are the method's own.
    """
    file = tmp_path / "serve.yaml"
    file.write_text(
        "speculative-config:\n  method: ngram\n  num_speculative_tokens: 3\n"
        "  match: first\n"
    )
    typed = '{"method": "ngram", "num_speculative_tokens": 3, "match": "first"}'

    by_file = engine_config(read(f"--config={file}"), in_process=False)
    by_hand = engine_config(read(f"--speculative-config={typed}"), in_process=False)

    assert by_file.speculative == by_hand.speculative
    assert by_hand.speculative == json.loads(typed)


def test_file_gives_options_and_the_command_line_wins(tmp_path: Path) -> None:
    """
    A YAML file has the same options; the command line overrides it.
    """
    file = tmp_path / "serve.yaml"
    file.write_text(
        "port: 9000\nmax_num_seqs: 3\nenable-prefix-caching: false\n"
        "enable-reset-prefix-cache: true\nkv-cache-memory: 1GiB\n"
        "stat-logger: [logging, prometheus]\n"
        "stat-logger-option: {logging: {interval: 9}}\n"
    )

    arguments = read(f"--config={file}", "--port=9001", "--stat-logger=logging")
    made = engine_config(arguments, in_process=False)
    settings = arguments.make("server", ServerSettings)

    assert settings.port == 9001
    assert settings.enable_reset_prefix_cache
    assert made.scheduler.max_num_seqs == 3
    assert made.cache.kv_cache_memory == 2**30
    assert not made.cache.enable_prefix_caching
    assert made.observers.stat_loggers == ("logging",)
    assert made.observers.options == {"logging": {"interval": "9"}}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("nonsense-key: 1", "unknown option 'nonsense-key'"),
        ("config: other.yaml", "unknown option 'config'"),
        ("max_num_seq: 3", "unknown option 'max-num-seq'; did you mean max-num-seqs?"),
        ("request_log.path: x", "is request_log a stat logger that is not in use?"),
        ("logging.intervall: 3", "is logging a stat logger that is not in use?"),
        ("metrics-label: {zone: [eu]}", "metrics-label must be a value or a list"),
        ("tenant-keys: {secret: acme}", "tenant-keys must be a value"),
        ("port: many", "argument --port: 'many' is not a whole number"),
        ("port: [1, 2]", "port must be a value"),
        ("in-process: 1", "in-process must be true or false"),
        ("port: null", "port must be a value"),
        ("- a\n- b", "must hold `option: value` lines"),
        ("a: [", "is not valid YAML"),
    ],
)
def test_wrong_file_is_one_clear_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str,
    complaint: str,
) -> None:
    """
    Invalid content of a file ends the command with one line and status 2.
    """
    file = tmp_path / "serve.yaml"
    file.write_text(content)

    status = main(["serve", "--config", str(file)])

    error = capsys.readouterr().err
    assert status == 2
    assert error.startswith("hookline: error: ")
    assert error.count("\n") == 1
    assert complaint in error


K_IS_0 = '{"method": "ngram", "num_speculative_tokens": 0}'
UNKNOWN = '{"method": "nothing", "num_speculative_tokens": 2}'


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["nonsense"], "unknown command 'nonsense'; available: serve, generate"),
        (["serv"], "unknown command 'serv'; did you mean serve?"),
        (["serve", "--max-num-seq", "3"], "--max-num-seq; did you mean --max-num-s"),
        (["serve", "--max_num_seq=3"], "did you mean --max-num-seqs?"),
        (["generate", "Hi"], "arguments: Hi; did you mean --prompt Hi?"),
        (["plugins", "doctor", "--tokn=x"], "did you mean --token?"),
        (["metrics", "lst"], "unknown command 'lst' of metrics; did you mean list?"),
        (["serve", "--nonsense"], "--nonsense"),
        (["serve", "--port"], "expected one argument"),
        (["serve", "--port", "x"], "'x' is not a whole number"),
        (["serve", "--port", "65536"], "port: must be 0 to 65535"),
        (["serve", "--mod", "demo"], "--mod"),
        (["serve", "--dtype", "int3"], "invalid choice: 'int3'"),
        (["serve", "--kv-cache-memory", "2 potatoes"], "is not a size"),
        (["serve", "--max-num-seqs", "0"], "max-num-seqs: must be at least 1"),
        (["serve", "--num-kv-blocks", "1", "--kv-cache-memory", "1"], "not both"),
        (["serve", "--simulated-step-seconds=-1"], "must be at least 0"),
        (["serve", "--simulated-step-seconds=nan"], "not a finite number"),
        (["serve", "--shutdown-timeout=-1"], "shutdown-timeout"),
        (["serve", "--stat-logger", "nope"], "no plugin 'nope'"),
        (["serve", "--stat-logger=none", "--stat-logger-option=a.b=c"], "not in use"),
        (["serve", "--stat-logger-option=junk"], "NAME.KEY=VALUE"),
        (["serve", "--speculative-config=ngram"], "is not JSON"),
        (
            ["serve", "--in-process", '--speculative-config={"method": "ngram"}'],
            "is missing",
        ),
        (
            ["serve", "--in-process", f"--speculative-config={K_IS_0}"],
            "must be at least 1",
        ),
        (["generate", "--prompt=x", f"--speculative-config={UNKNOWN}"], "installed:"),
        (
            [
                *("serve", "--in-process", "--async-scheduling"),
                f"--speculative-config={UNKNOWN}",
            ],
            "cannot be combined with async-scheduling",
        ),
        (["serve", "--config", "/nonexistent.yaml"], "cannot read"),
        (["generate"], "give a --prompt"),
        (["serve", "-dp", "2", "-dpn", "2"], "data-parallel-rank: 2 is not below"),
        (
            ["serve", "--headless", "-dp", "2", "-dpn", "1"],
            "headless: cannot be combined with data-parallel-rank",
        ),
        (
            ["serve", "--headless", "-dp", "2", "-dpl", "1", "-dph"],
            "headless: cannot be combined with data-parallel-hybrid-lb",
        ),
        (["generate", "--prompt", "x", "--temperature=-1"], "temperature"),
        (["generate", "--prompt", "x", "--max-tokens=0"], "max_tokens"),
        (["generate", "--prompt-file", "/nonexistent"], "cannot read"),
        (["plugins", "extra"], "unrecognized arguments"),
        (["serve", "--dtype=int3"], "invalid choice: 'int3' (choose from 'auto', "),
        (["chat"], "chat is not a command of Hookline: start hookline serve"),
    ],
    ids=" ".join,
)
def test_wrong_input_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], argv: list[str], complaint: str
) -> None:
    """
    Wrong input ends the command with one line on standard error and status 2.
    """
    status = main(argv)

    error = capsys.readouterr().err
    assert status == 2
    assert error.startswith("hookline: error: ")
    assert error.count("\n") == 1
    assert complaint in error


def test_loggers_add_options() -> None:
    """
    A named logger's own options are options, and only a named one's.
    """
    arguments = read("--stat-logger=logging", "--logging-interval=7")

    made = engine_config(arguments, in_process=False)

    assert made.observers.options == {"logging": {"interval": "7"}}


def test_underscores_of_a_loggers_name_are_dashes_in_its_flags(tmp_path: Path) -> None:
    """
    `request_log.max_bytes` is `--request-log-max-bytes`, and without dashes in a file.
    """
    file = tmp_path / "serve.yaml"
    file.write_text("stat-logger: request_log\nrequest-log-max-bytes: 7\n")

    typed = engine_config(
        read("--stat-logger=request_log", "--request-log-path=/x"), in_process=False
    )
    written = engine_config(read(f"--config={file}"), in_process=False)

    assert typed.observers.stat_loggers == ("request_log",)
    assert typed.observers.options == {"request_log": {"path": "/x"}}
    assert written.observers.options == {"request_log": {"max_bytes": "7"}}


def test_option_of_a_logger_may_have_a_dot_in_a_file(tmp_path: Path) -> None:
    """
    A logger's option has the same meaning with its dot, alone or in a mapping.
    """
    file = tmp_path / "serve.yaml"
    texts = (
        "request_log.path: /x",
        "stat-logger-option: {request_log.path: /x}",
        "stat-logger-option: {request_log: {path: /x}}",
        "stat-logger-option: [request_log.path=/x]",
    )
    for text in texts:
        file.write_text(f"stat-logger: request_log\n{text}\n")

        made = engine_config(read(f"--config={file}"), in_process=False)

        assert made.observers.options == {"request_log": {"path": "/x"}}


def test_options_of_loggers_add_up() -> None:
    """
    A repeated `--stat-logger-option` sets further options of the same logger.
    """
    arguments = read(
        "--stat-logger=logging",
        "--stat-logger=request_log",
        "--stat-logger-option=logging.interval=7",
        "--stat-logger-option=request_log.path=a.b=c",
        "--stat-logger-option=logging.format=json",
    )

    made = engine_config(arguments, in_process=False)

    assert made.observers.options == {
        "logging": {"interval": "7", "format": "json"},
        "request_log": {"path": "a.b=c"},
    }


def test_examples_in_the_help_work(capsys: pytest.CaptureFixture[str]) -> None:
    """
    Each example of a JSON option in the help is a valid one.
    """
    examples = {
        option.flag: option.help.partition("such as ")[2].removesuffix(".")
        for option in engine_options()
        if "such as {" in option.help
    }
    made = config(*(f"--{flag}={example}" for flag, example in examples.items()))
    # Events are not run: they would listen on the port that is everybody's default.
    del examples["kv-events-config"]
    # A simulated engine has no logits that grammars could mask.
    del examples["structured-outputs-config"]
    argv = [f"--{flag}={example}" for flag, example in examples.items()]
    # Without it nothing would be pooled.
    argv.append("--convert=embed")

    status = main(["generate", "--prompt=x", "--max-tokens=1", *argv, *SIMULATED])

    assert (status, capsys.readouterr().err) == (0, "")
    assert made.follows_cache
    assert set(examples) == {
        "hf-overrides",
        "kv-transfer-config",
        "override-generation-config",
        "pooler-config",
        "speculative-config",
    }


def test_help_fits_a_terminal_and_shows_every_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The help has no line of more than 80 characters, and each option and what it does.
    """
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["serve", "--help=all", "--stat-logger=request_log", "--stat-logger=otel"])

    shown = capsys.readouterr().out
    unwrapped = "".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80
    for option in OPTIONS:
        assert f"  --{option.flag}" in shown
        assert "".join(option.help.split()) in unwrapped
    assert "  --request-log-path VALUE\n" in shown


def test_help_shows_the_options_of_default_loggers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """
    `hookline serve --help` groups its options and shows those of the default loggers.
    """
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--help"])

    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert "KV cache:" in shown
    assert "options of the logger logging:" in shown


def test_no_logger_is_imported_for_none(capsys: pytest.CaptureFixture[str]) -> None:
    """
    With `--stat-logger none` no logger's options are shown.
    """
    with pytest.raises(SystemExit):
        main(["serve", "--stat-logger", "none", "--help"])

    assert "options of the logger" not in capsys.readouterr().out


def test_default_loggers_can_be_switched_off() -> None:
    """
    `--stat-logger none` leaves no logger, also where there are defaults.
    """
    arguments = read("--stat-logger", "none", default_loggers=("logging",))

    assert engine_config(arguments, in_process=False).observers.stat_loggers == ()


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_option_is_used(kind: Kind) -> None:
    """
    No kind of option is there for nothing.
    """
    assert any(option.kind is kind for option in OPTIONS)


def test_version_lists_the_installed_packages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """
    `hookline version --json` names the packages that matter.
    """
    status = main(["version", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert status == 0
    assert set(found) == {"hookline", "torch", "transformers", "python"}
    assert all(found.values())


def test_plugins_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """
    `hookline plugins` shows each plugin in a line, `--json` the same for machines.
    """
    assert main(["plugins", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert main(["plugins"]) == 0
    lines = capsys.readouterr().out.splitlines()

    named = {(row["kind"], row["name"]): row for row in rows}
    assert named["logger", "prometheus"]["distribution"] == "hookline-prometheus"
    assert named["engine", "native"]["state"] == "ok"
    assert len(lines) == len(rows) + 1
    assert lines[0].split()[:2] == ["name", "kind"]


def test_broken_plugin_widens_no_other_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Why a plugin is broken stands below the table of `hookline plugins`.
    """
    with PluginSite(tmp_path) as site:
        site.install("sick", "raise RuntimeError", group="hookline.logger")
        status = main(["plugins"])

    lines = capsys.readouterr().out.splitlines()
    (row,) = [line for line in lines if line.startswith("sick ")]
    assert status == 0
    assert row.split()[4:] == ["broken"]
    assert max(len(line) for line in lines[:-1]) < 110
    assert lines[-1].startswith("logger sick: its group is misspelt: ")


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (["plugins"], {"numpy", "packaging", "hookline_logging", "hookline_testing"}),
        (["plugins", "list"], {"numpy", "packaging", "hookline_logging"}),
        (["plugins", "doctor"], set()),
    ],
)
def test_plugins_are_listed_without_torch(arguments: list[str], more: set[str]) -> None:
    """
    The list imports no plugin, and its check neither torch nor numba.
    """
    heavy = {"torch", "transformers", "numba", "aiohttp"} | more
    code = (
        "import sys\n"
        "from hookline_server.cli import main\n"
        f"main({arguments})\n"
        f"heavy = {heavy} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_relative_entries_of_the_import_path_are_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """
    Whoever has named one sees in a line why it is not used.
    """
    assert dispatch(["--version"], left_out=["src", "."]) == 0

    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("hookline: warning: PYTHONPATH: 'src', '.' is left out: ")


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_command_alone_lists_its_commands(
    capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    """
    Without a command `hookline` lists the commands.
    """
    assert main(argv) == 0

    shown = capsys.readouterr().out
    assert all(name in shown for name in ("serve", "generate", "plugins", "version"))


def test_reading_options_imports_nothing_heavy() -> None:
    """
    The command line is read without torch and transformers.
    """
    code = (
        "import sys\n"
        "from hookline_server.cli.commands import generate, serve\n"
        "heavy = {'torch', 'transformers', 'numpy', 'tokenizers'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
