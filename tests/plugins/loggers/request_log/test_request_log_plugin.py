"""The request log as Hookline meets it."""

import dataclasses
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import hookline_request_log
from hookline.config import EngineConfig, ObserverConfig
from hookline.events import ClockPair, StepOutput
from hookline.exceptions import ConfigError
from hookline.frontend.observation import Observers
from hookline.payloads import EngineFailed, EngineStopped, LoggerContext
from hookline.request import RequestFacts
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_metrics.adapters import LORA, AdapterUsage, AdapterWait, LoraNews
from hookline_request_log import (
    LostLinesError,
    RequestLogger,
    create_stat_logger,
    log_file,
)
from hookline_request_log.options import DEFAULTS, Options
from hookline_testing.logger_plugins import DeclaredOptions, assert_hooks_exist
from hookline_testing.payloads import (
    FACTS,
    FINISHED,
    make_started,
    make_state,
    make_step,
)

REJECTED = StepOutput(0, 0, "rejected", SchedulerStats())
ENDED = IterationStats(finished=(FINISHED, FINISHED))
SECONDS = 30.0


def context(**options: str) -> LoggerContext:
    """What the plugin is given when it is chosen."""
    return LoggerContext(name="request_log", config=EngineConfig(), options=options)


def with_prompts(**options: str) -> LoggerContext:
    """The same where prompts are kept and asked for."""
    config = EngineConfig(observers=ObserverConfig(keep_prompts=True))
    return dataclasses.replace(context(prompts="true", **options), config=config)


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log is to be."""
    return tmp_path / "requests.jsonl"


@pytest.fixture
def logger(path: Path) -> Iterator[RequestLogger]:
    """A logger that writes there, closed at the end."""
    logger: RequestLogger = create_stat_logger(context=context(path=str(path)))
    yield logger
    logger.engine_stopped(EngineStopped(engine_index=0, reason="closed"))


def test_plugin_agrees_with_the_specs() -> None:
    """The module and its logger implement only hooks there are."""
    assert_hooks_exist(hookline_request_log, create_stat_logger(context=context()))


def test_options_are_declared_with_their_defaults() -> None:
    """The command line offers each option, with what holds without it."""
    declared = DeclaredOptions()

    hookline_request_log.add_cli_options(declared)

    assert declared.defaults == DEFAULTS
    options = Options.read(context())
    assert options.path is None
    assert options.max_prompt_tokens is None
    assert (options.rotation.max_bytes, options.rotation.backups) == (100 * 2**20, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "red"}, "colour: no such option; options: path, max_bytes, "),
        ({"path": ""}, "path: '' is not a path"),
        ({"path": "a\0b"}, "path: 'a\\x00b' is not a path"),
        ({"path": "{tmp}"}, "path: {tmp} is not a file"),
        ({"path": "{tmp}/no/log"}, "path: the folder {tmp}/no does not exist"),
        ({"path": "{tmp}/" + "x" * 300}, "path: cannot write {tmp}/xxx"),
        ({"path": "{tmp}/log", "max_bytes": "1k"}, "max_bytes: '1k' is not a whole"),
        ({"path": "{tmp}/log", "max_bytes": "0"}, "max_bytes: must be at least 1, n"),
        ({"path": "{tmp}/log", "backups": "-1"}, "backups: must be at least 0, not "),
        ({"path": "{tmp}/log", "backups": "1001"}, "backups: must be at most 1000, "),
        ({"path": "{tmp}/log", "rotate": "daily"}, "rotate: must be size or hourly, "),
        ({"max_bytes": "5"}, "max_bytes: needs a file: set path"),
        ({"rotate": "hourly"}, "rotate: needs a file: set path"),
        ({"prompts": "yes"}, "prompts: must be true or false, not 'yes'"),
        ({"prompts": "true"}, "prompts: needs --keep-prompts"),
        ({"max_prompt_tokens": "5"}, "max_prompt_tokens: needs prompts=true"),
    ],
)
def test_wrong_option_is_one_clear_error(
    options: dict[str, str], message: str, tmp_path: Path
) -> None:
    """A wrong option is named, with what is wrong, before the engine starts."""
    given = {key: text.replace("{tmp}", str(tmp_path)) for key, text in options.items()}

    with pytest.raises(ConfigError) as caught:
        Options.read(context(**given))

    expected = message.replace("{tmp}", str(tmp_path))
    assert str(caught.value).startswith(f"request_log.{expected}")
    assert not (tmp_path / "log").exists()


def test_bound_of_token_ids_is_checked() -> None:
    """With prompts asked for, the bound has to be a positive number."""
    with pytest.raises(ConfigError, match="max_prompt_tokens: must be at least 1"):
        Options.read(with_prompts(max_prompt_tokens="0"))


def test_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """A file that could be neither created nor rotated is refused at the start."""
    tmp_path.chmod(0o500)
    if os.access(tmp_path, os.W_OK):
        pytest.skip("the superuser may write anywhere")

    with pytest.raises(ConfigError, match="is not writable"):
        Options.read(context(path=str(tmp_path / "log")))


def test_named_pipe_is_refused(tmp_path: Path) -> None:
    """Opening one could wait for ever."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ConfigError, match="pipe is not a file"):
        Options.read(context(path=str(tmp_path / "pipe")))


def test_relative_path_outlives_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken from where the program was started."""
    monkeypatch.chdir(tmp_path)
    options = Options.read(context(path="log"))

    monkeypatch.chdir("/")

    assert options.path == tmp_path / "log"


def test_ends_in_and_outside_a_step_are_written(
    logger: RequestLogger, path: Path
) -> None:
    """Each ended request has its line, and steps that ended none write nothing."""
    logger.engine_started(make_started())

    logger.step_finished(make_step())
    logger.step_finished(make_step(ENDED))
    logger.state_changed(make_state(IterationStats(finished=(FINISHED,))))
    logger.state_changed(make_state())

    assert [line["model"] for line in read(path)] == ["tiny"] * 3


def test_model_without_a_reported_name(logger: RequestLogger, path: Path) -> None:
    """A line that comes before the engine's start has the configured name."""
    logger.state_changed(make_state(ENDED, engine_index=1))

    assert [(line["model"], line["engine"]) for line in read(path)] == [("demo", 1)] * 2


def test_lines_come_after_an_engine_s_death(logger: RequestLogger, path: Path) -> None:
    """What is refused by a server whose engine died is still written."""
    logger.engine_started(make_started())
    logger.step_finished(make_step(ENDED))

    logger.engine_failed(EngineFailed(engine_index=0, reason="killed", open_requests=0))
    logger.state_changed(make_state(ENDED))

    assert len(read(path)) == 4


def test_prompts_are_written_on_request(path: Path) -> None:
    """Both options together bring token ids into the line."""
    logger: RequestLogger = create_stat_logger(
        context=with_prompts(path=str(path), max_prompt_tokens="2")
    )
    kept = dataclasses.replace(
        FINISHED, prompt_token_ids=(1, 2, 3), output_token_ids=(4,)
    )

    logger.step_finished(make_step(IterationStats(finished=(kept,))))
    logger.engine_stopped(EngineStopped(engine_index=0, reason="closed"))

    (line,) = read(path)
    assert line["prompt"] == {"token_ids": [1, 2], "truncated": True}
    assert line["output"] == {"token_ids": [4], "truncated": False}


def refuse(*_: object) -> None:
    """What a disk does that is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_lost_lines_are_counted(
    logger: RequestLogger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the numbers of lines lost now and in total."""
    monkeypatch.setattr(log_file, "write_whole", refuse)

    with pytest.raises(LostLinesError):
        logger.step_finished(make_step(ENDED))
    with pytest.raises(LostLinesError) as caught:
        logger.step_finished(make_step(ENDED))

    expected = f"{path}: 2 lines lost, 4 in all: No space left on device"
    assert str(caught.value) == expected


def test_full_disk_is_one_error_of_the_lane(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chosen by name, the log counts a lost batch once and goes on with the next."""
    config = EngineConfig(
        observers=ObserverConfig(
            stat_loggers=("request_log",), options={"request_log": {"path": str(path)}}
        )
    )
    observers = Observers(config)
    observers.started(FACTS, ClockPair(wall=0, monotonic=0))

    with monkeypatch.context() as disk:
        disk.setattr(log_file, "write_whole", refuse)
        observers.observe(REJECTED, ENDED, {})
        assert observers.flush(SECONDS)
    observers.observe(REJECTED, ENDED, {})
    observers.stopped(0, "closed")
    assert observers.close(SECONDS)

    (lane,) = observers.lanes
    assert (lane.errors, lane.delivered, lane.breaker) == (1, 4, "closed")
    assert len(read(path)) == 2
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_line_has_the_wait_for_the_adapter(logger: RequestLogger, path: Path) -> None:
    """Waits come before the request's end; those of other requests are theirs."""
    request = dataclasses.replace(FINISHED, facts=RequestFacts(lora="legal"))
    waits = [
        AdapterWait(FINISHED.request_id, "legal", 0, 1_250_000_000, 1.0),
        AdapterWait(FINISHED.request_id, "legal", 0, 500_000_000),
        AdapterWait(99, "legal", 0, 7_000_000_000),
    ]
    usage = AdapterUsage(FINISHED.request_id, "legal", 2.0, "0123456789abcdef" * 4)

    logger.state_changed(
        make_state(IterationStats(sections={LORA: LoraNews(waits=waits)}))
    )
    logger.step_finished(
        make_step(
            IterationStats(
                finished=(request,), sections={LORA: LoraNews(usages=[usage])}
            )
        )
    )

    [line] = read(path)
    assert (line["lora"], line["lora_digest"]) == ("legal", "0123456789ab")
    assert isinstance(line["seconds"], dict)
    assert line["seconds"]["adapter"] == 1.75
