"""The operator's own configuration of the log, as `logging.config` has it."""

import logging.config
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from hookline.config.options import option
from hookline.exceptions import ConfigError
from hookline_registry import Failure, isolate

LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Options of the log besides its level and format."""

    log_config_file: str | None = option(
        "JSON or YAML file for logging.config.dictConfig.",
        default=None,
        metavar="FILE",
    )
    disable_uvicorn_access_log: bool = option(
        "No request has a line of log.", default=False
    )
    disable_access_log_for_endpoints: tuple[str, ...] = option(
        "Path whose requests have none.",
        default=(),
        metavar="PATH",
        commas=True,
    )


@dataclass(frozen=True, slots=True)
class LogConfig:
    """What a file says, and is in force.

    Attributes:
        has_level: Whether it sets the level of the root logger.
        has_handlers: Whether the root logger has handlers of its own, in place of
            standard error.
    """

    has_level: bool = False
    has_handlers: bool = False


def apply_log_config(path: str) -> LogConfig:
    """Configures the log by a file; loggers that it does not name stay as they are.

    It comes before all other handlers, which it would remove.

    Raises:
        ConfigError: The file cannot be read, or `logging.config` does not take it.
    """
    content = _content(path)
    content.setdefault("disable_existing_loggers", False)
    # It may name classes, which may raise anything.
    outcome = isolate(logging.config.dictConfig, content)
    if isinstance(outcome, Failure):
        cause = outcome.error.__cause__
        why = f": {cause}" if cause is not None else ""
        raise ConfigError("log-config-file", f"{path}: {outcome.error}{why}")
    root = content.get("root")
    if not isinstance(root, Mapping):
        return LogConfig()
    return LogConfig("level" in root, bool(root.get("handlers")))


def _content(path: str) -> dict[str, object]:
    try:
        found: object = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        text = f"cannot read {path}: {error.strerror}"
        raise ConfigError("log-config-file", text) from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        text = f"{path} is neither JSON nor YAML"
        raise ConfigError("log-config-file", text) from error
    if not isinstance(found, dict):
        raise ConfigError("log-config-file", f"{path} must hold a mapping")
    return found
