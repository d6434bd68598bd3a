"""The operator's own configuration of the log."""

import json
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hookline.exceptions import ConfigError
from hookline_server.logs.config_file import LogConfig, apply_log_config
from hookline_server.logs.options import LogFormat, LogLevel
from hookline_server.logs.set_up import set_up_log

OWN = "hookline_server.test_log_config_file"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Puts everything back: handlers that pytest has, too, are registered again."""
    known = (list(logging._handlerList), dict(logging._handlers))  # type: ignore[attr-defined]
    root, level = list(logging.root.handlers), logging.root.level
    yield
    for each in (*logging.root.handlers, *logging.getLogger(OWN).handlers):
        if isinstance(each, logging.FileHandler) and each not in root:
            each.close()
    logging.getLogger(OWN).handlers.clear()
    logging.getLogger(OWN).setLevel(logging.NOTSET)
    logging.getLogger(OWN).propagate = True
    logging.root.handlers[:] = root
    logging.root.setLevel(level)
    logging._handlerList[:] = known[0]  # type: ignore[attr-defined]
    logging._handlers.update(known[1])  # type: ignore[attr-defined]


def file_handler(path: Path) -> dict[str, object]:
    return {"class": "logging.FileHandler", "filename": str(path), "level": "DEBUG"}


def written(path: Path, content: object) -> str:
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize("is_root", [False, True])
def test_a_file_adds_handlers_and_levels(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], *, is_root: bool
) -> None:
    """
    A logger's handlers stand beside standard error; those of the root replace it.
    """
    lines = tmp_path / "lines"
    logger = {"level": "DEBUG", "handlers": ["file"]}
    where = {"root": logger} if is_root else {"loggers": {OWN: logger}}
    content = {"version": 1, "handlers": {"file": file_handler(lines)}, **where}
    path = written(tmp_path / "log.json", content)

    with closing(set_up_log(LogLevel.INFO, LogFormat.CONSOLE, path)):
        logging.getLogger(OWN).debug("first")
        logging.getLogger(OWN).info("second")

    assert lines.read_text() == "first\nsecond\n"
    assert ("second" in capfd.readouterr().err) is not is_root


def test_yaml_is_read_and_no_logger_is_disabled(tmp_path: Path) -> None:
    """
    Loggers that the file does not name go on, unless it says otherwise.
    """
    logging.getLogger("hookline_server.unnamed").disabled = False
    path = tmp_path / "log.yaml"
    path.write_text("version: 1\nroot:\n  level: WARNING\n")

    found = apply_log_config(str(path))

    assert found == LogConfig(has_level=True, has_handlers=False)
    assert logging.root.level == logging.WARNING
    assert not logging.getLogger("hookline_server.unnamed").disabled


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "is neither JSON nor YAML"),
        ("[]", "must hold a mapping"),
        ("{}", "version"),
        (
            '{"version": 1, "handlers": {"a": {"class": "vllm.Handler"}}}',
            "Unable to configure handler 'a': .*vllm",
        ),
        ('{"version": 1, "root": {"level": "LOUD"}}', "LOUD"),
    ],
)
def test_a_bad_file_is_one_sentence(
    tmp_path: Path, content: str, expected: str
) -> None:
    """
    It names the file and what is wrong in it.
    """
    path = tmp_path / "log.json"
    path.write_text(content)

    with pytest.raises(ConfigError, match=expected) as raised:
        apply_log_config(str(path))

    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_missing_is_one_sentence() -> None:
    """
    It says that it cannot be read.
    """
    with pytest.raises(ConfigError, match="cannot read /no/such/file: No such file"):
        apply_log_config("/no/such/file")
