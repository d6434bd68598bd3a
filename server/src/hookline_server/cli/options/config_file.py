"""Options from a YAML file, as if they had been typed."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from hookline.config.sections import missing_distribution
from hookline_registry.spelling import did_you_mean
from hookline_server.auth.key_file import line_of
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.option import CONFIG_FILE, REPEATABLE, Kind, Option
from hookline_server.cli.options.peers import advice, is_settled
from hookline_server.cli.options.renamed import own_name


def file_arguments(path: str, options: Iterable[Option]) -> list[str]:
    """Returns the file's options as command-line arguments.

    Raises:
        UsageError: The file cannot be read, or has an unknown or wrong key.
    """
    known = {each.flag: each for each in options if each.target != CONFIG_FILE}
    arguments: list[str] = []
    for key, value in read_file(path).items():
        # An option of a logger can also be written with its dot.
        flag = key.replace(".", "-").replace("_", "-")
        head = key.partition(".")[0]
        if head != key and head in known and known[head].is_json:
            arguments.append(f"--{key}={_text(value)}")
            continue
        if flag not in known and _is_settled(flag, value):
            continue
        if flag not in known and (reason := missing_distribution(flag)) is not None:
            raise UsageError(f"{path}: {flag} {reason}")
        if flag not in known and (instead := advice(flag)) is not None:
            raise UsageError(f"{path}: {key} is not an option of Hookline: {instead}")
        if flag not in known:
            raise UsageError(f"{path}: unknown option {key!r}{_hint(key, known)}")
        arguments += option_arguments(path, known[flag], value)
    return arguments


def read_file(path: str) -> dict[str, object]:
    """Returns the file's values by option, by Hookline's names with dashes.

    Raises:
        UsageError: The file cannot be read.
    """
    try:
        content: object = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        # YAML's own message quotes the line, which may hold a key.
        raise UsageError(f"{path} is not valid YAML{line_of(error)}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UsageError(f"{path} must hold `option: value` lines")
    found: dict[str, object] = {}
    for key, value in content.items():
        flag, own = own_name(_dashed(str(key)), value)
        # A name that stands for a value of an option has no effect if it is false.
        if own is value or value is not False:
            found[flag] = own
    return found


def _dashed(key: str) -> str:
    """Returns a key with dashes; what follows a dot keeps its underscores."""
    flag, dot, path = key.partition(".")
    return f"{flag.replace('_', '-')}{dot}{path}"


def _is_settled(flag: str, value: object) -> bool:
    if isinstance(value, bool):
        return is_settled(flag if value else f"no-{flag}", None)
    return is_settled(flag, str(value))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _hint(key: str, known: Iterable[str]) -> str:
    head, dot, _ = key.partition(".")
    if dot and head not in known:
        return f"; is {head.replace('-', '_')} a stat logger that is not in use?"
    return did_you_mean(key.replace(".", "-"), known)


def option_arguments(source: str, option: Option, value: object) -> list[str]:
    """Returns an option's value as command-line arguments.

    Args:
        source: What the value comes from, for messages.
        option: The option.
        value: Its value, of a type of YAML.

    Raises:
        UsageError: The value does not fit.
    """
    flag = f"--{option.flag}"
    if option.kind in (Kind.SWITCH, Kind.FLAG):
        if not isinstance(value, bool):
            raise UsageError(f"{source}: {option.flag} must be true or false")
        if value:
            return [flag]
        return [f"--no-{option.flag}"] if option.kind is Kind.SWITCH else []
    values = _values(option, value)
    if any(isinstance(one, (dict, list, bool)) or one is None for one in values):
        is_list = option.kind in REPEATABLE
        expected = "a value or a list of values" if is_list else "a value"
        raise UsageError(f"{source}: {option.flag} must be {expected}")
    return [f"{flag}={one}" for one in values]


def _values(option: Option, value: object) -> list[object]:
    if isinstance(value, Mapping):
        if option.is_json:
            return [_text(value)]
        if option.kind is Kind.MAP:
            return list(_pairs(value, ""))
    if option.kind in REPEATABLE and isinstance(value, list):
        return value
    return [value]


def _pairs(mapping: Mapping[object, object], prefix: str) -> Iterable[object]:
    """Flattens a mapping: `{logging: {interval: 9}}` is `logging.interval=9`."""
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _pairs(value, f"{prefix}{key}.")
        elif isinstance(value, list) or value is None:
            yield value
        else:
            yield f"{prefix}{key}={value}"
