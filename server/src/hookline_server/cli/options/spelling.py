"""Other spellings of options, as vLLM takes them.

`--max_num_seqs` is `--max-num-seqs`, `-tp` is `--tensor-parallel-size`, and
`--disable-log-stats` is `--stat-logger=none`. A key of an option in JSON can be one
itself: `--speculative-config.method ngram`. A key that ends with `+` adds to a list.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.merging import merged
from hookline_server.cli.options.option import Option

ALIASES = {
    "--disable-log-stats": "--stat-logger=none",
    "--distributed-executor-backend": "--executor",
    "-dp": "--data-parallel-size",
    "-dpa": "--data-parallel-address",
    "-dpb": "--data-parallel-backend",
    "-dpe": "--data-parallel-external-lb",
    "-dph": "--data-parallel-hybrid-lb",
    "-dpl": "--data-parallel-size-local",
    "-dpn": "--data-parallel-rank",
    "-dpp": "--data-parallel-rpc-port",
    "-dpr": "--data-parallel-start-rank",
    "-ep": "--enable-expert-parallel",
    "-pp": "--pipeline-parallel-size",
    "-q": "--quantization",
    "-tp": "--tensor-parallel-size",
}
"""vLLM's aliases of options."""


def respelt(argv: Sequence[str], options: Iterable[Option]) -> list[str]:
    """Returns the command line in the options' own spelling.

    Keys of the same option are gathered at the end, over those of its JSON.

    Raises:
        UsageError: A key has no value, or two keys contradict each other.
    """
    as_json = {f"--{each.flag}" for each in options if each.is_json}
    plain: list[str] = []
    keyed: dict[str, dict[str, object]] = {}
    rest = iter(argv)
    for argument in rest:
        name, equals, value = argument.partition("=")
        flag, dot, path = _dashed(name).partition(".")
        if dot and flag in as_json:
            text = value if equals else next(rest, None)
            if text is None:
                raise UsageError(f"argument {name}: expected one argument")
            _put(keyed.setdefault(flag, {}), name, path, _value(text))
        else:
            plain.append(f"{_dashed(name)}{equals}{value}")
    return [*_without_json(plain, keyed), *_as_json(keyed)]


def _dashed(name: str) -> str:
    """Returns an option's name with dashes; keys after a dot keep their underscores."""
    if name.startswith("--"):
        flag, dot, path = name.partition(".")
        name = f"{flag.replace('_', '-')}{dot}{path}"
    return ALIASES.get(name, name)


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _put(found: dict[str, object], name: str, path: str, value: object) -> None:
    *parents, last = path.split(".")
    for key in parents:
        inner = found.setdefault(key, {})
        if not isinstance(inner, dict):
            raise UsageError(f"{name}: {key} has a value already")
        found = inner
    if last.endswith("+"):
        items = found.setdefault(last[:-1], [])
        if not isinstance(items, list):
            raise UsageError(f"{name}: {last[:-1]} is not a list")
        items.append(value)
    else:
        found[last] = value


def _without_json(argv: list[str], keyed: dict[str, dict[str, object]]) -> list[str]:
    """Moves the JSON of options that also have keys below these keys."""
    kept: list[str] = []
    rest = iter(argv)
    for argument in rest:
        flag, equals, value = argument.partition("=")
        if flag not in keyed:
            kept.append(argument)
            continue
        text = value if equals else next(rest, "")
        given = _value(text)
        if not isinstance(given, dict):
            raise UsageError(f"{flag}: {text!r} is not a JSON object")
        keyed[flag] = merged(given, keyed[flag])
    return kept


def _as_json(keyed: Mapping[str, object]) -> Iterator[str]:
    for flag, keys in keyed.items():
        yield f"{flag}={json.dumps(keys)}"
