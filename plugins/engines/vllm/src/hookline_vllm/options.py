"""Options from the environment: `HOOKLINE_STAT_LOGGERS` and `HOOKLINE_CONFIG`."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from hookline.config.engine import EngineConfig
from hookline.exceptions import ConfigError

LOGGERS = "HOOKLINE_STAT_LOGGERS"
CONFIG = "HOOKLINE_CONFIG"
DEFAULT_LOGGERS = "prometheus,logging"


def read_config(environ: Mapping[str, str], model_name: str) -> EngineConfig:
    """Returns a configuration of which loggers read their parts.

    Raises:
        ConfigError: An option is unknown, or the file cannot be read.
    """
    options = _from_file(environ.get(CONFIG, ""))
    if LOGGERS in environ or "stat_logger" not in options:
        names = environ.get(LOGGERS, DEFAULT_LOGGERS).split(",")
        chosen = (name.strip() for name in names)
        options["stat_logger"] = tuple(
            name for name in chosen if name not in {"", "none"}
        )
    options["model"] = options["served_model_name"] = model_name
    return EngineConfig.from_options(**options)


def _from_file(path: str) -> dict[str, object]:
    if not path:
        return {}
    try:
        found: object = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(CONFIG, f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(CONFIG, f"{path} holds no options by name")
    return {str(name).replace("-", "_"): value for name, value in found.items()}
