"""Options from a YAML file, as if they had been typed."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from hookline_server.cli.parser import Kind, Option, UsageError

JSON_OPTIONS = frozenset(
    {
        "histogram-buckets",
        "kv-events-config",
        "kv-transfer-config",
        "speculative-config",
    }
)
REPEATABLE = (Kind.LIST, Kind.WORDS, Kind.MAP)


def file_arguments(path: str, options: Iterable[Option]) -> list[str]:
    """The file's options as command-line arguments.

    Raises:
        UsageError: The file cannot be read, or has a key that is no option.
    """
    known = {option.flag: option for option in options if option.flag != "config"}
    arguments: list[str] = []
    for key, value in read_file(path).items():
        if key not in known:
            raise UsageError(f"{path}: there is no option {key!r}")
        arguments += _arguments(path, known[key], value)
    return arguments


def read_file(path: str) -> dict[str, object]:
    """The file's keys and values; a key may have underscores for dashes."""
    try:
        content: object = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not valid YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UsageError(f"{path} must hold `option: value` lines")
    return {str(key).replace("_", "-"): value for key, value in content.items()}


def _arguments(path: str, option: Option, value: object) -> list[str]:
    flag = f"--{option.flag}"
    if option.kind in (Kind.SWITCH, Kind.FLAG):
        if not isinstance(value, bool):
            raise UsageError(f"{path}: {option.flag} must be true or false")
        if value:
            return [flag]
        return [f"--no-{option.flag}"] if option.kind is Kind.SWITCH else []
    values = _values(option, value)
    if any(isinstance(one, (dict, list, bool)) or one is None for one in values):
        is_list = option.kind in REPEATABLE
        wanted = "a value or a list of values" if is_list else "a value"
        raise UsageError(f"{path}: {option.flag} must be {wanted}")
    return [f"{flag}={one}" for one in values]


def _values(option: Option, value: object) -> list[object]:
    if option.kind in REPEATABLE and isinstance(value, list):
        return value
    if isinstance(value, Mapping):
        # What is a mapping reads better in YAML as one.
        if option.flag == "stat-logger-option":
            return _logger_values(value)
        if option.flag == "metrics-label":
            return [f"{key}={one}" for key, one in value.items()]
        if option.flag in JSON_OPTIONS:
            return [json.dumps(value, default=str)]
    return [value]


def _logger_values(loggers: Mapping[object, object]) -> list[object]:
    values: list[object] = []
    for name, keys in loggers.items():
        if not isinstance(keys, Mapping):
            return [loggers]
        values += [f"{name}.{key}={value}" for key, value in keys.items()]
    return values
