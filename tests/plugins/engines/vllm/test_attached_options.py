"""Options of the attachment, which come from the environment."""

from pathlib import Path

import pytest

from hookline.exceptions import ConfigError
from hookline_vllm.options import read_config


def test_loggers_are_those_of_the_variable() -> None:
    """Prometheus and the log without it; none is none."""
    name = "HOOKLINE_STAT_LOGGERS"

    chosen = read_config({name: "insight, my:Logger"}, "tiny").observers.stat_loggers
    assert chosen == ("insight", "my:Logger")
    assert read_config({name: "none"}, "tiny").observers.stat_loggers == ()
    default = read_config({}, "tiny")
    assert default.observers.stat_loggers == ("prometheus", "logging")
    assert default.model.served_name == "tiny"


def test_file_has_the_options_of_a_server(tmp_path: Path) -> None:
    """By the names of its flags, also those of installed distributions."""
    path = tmp_path / "options.yaml"
    path.write_text("stat-logger: [prometheus]\nheartbeat_seconds: 2\n")
    environ = {"HOOKLINE_CONFIG": str(path)}

    config = read_config(environ, "tiny")

    assert config.observers.stat_loggers == ("prometheus",)
    assert config.observers.heartbeat_seconds == 2


@pytest.mark.parametrize("text", ["- a list", "no_such_option: 1", "{"])
def test_file_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    """The loggers do not start then; vLLM does."""
    path = tmp_path / "options.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError):
        read_config({"HOOKLINE_CONFIG": str(path)}, "tiny")
    with pytest.raises(ConfigError):
        read_config({"HOOKLINE_CONFIG": f"{path}.missing"}, "tiny")
