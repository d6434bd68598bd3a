"""Other spellings of options, as vLLM takes them.

`--max_num_seqs` is `--max-num-seqs`, `-tp` is `--tensor-parallel-size`, and
`--disable-log-stats` is `--stat-logger=none`. A key of an option in JSON can be one
itself: `--speculative-config.method ngram`. A key that ends with `+` adds to a list.
What asks for what is so anyway, such as `--no-enable-mm-embeds`, is left out.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hookline_description.overriding import merged
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.option import Kind, Option
from hookline_server.cli.options.peers import is_settled, takes_settled_value
from hookline_server.cli.options.renamed import (
    ALIASES,
    EXPANDED,
    SEVERAL,
    SHORT,
    own_word,
)

_WHOLE = re.compile(r"--[^=]+=")
_OPTION = re.compile(r"--|-[A-Za-z]")


def respelt(argv: Sequence[str], options: Iterable[Option]) -> list[str]:
    """Returns the command line in the options' own spelling.

    Keys of the same option are gathered at the end, over those of its JSON.

    Raises:
        UsageError: A key has no value, or two keys contradict each other.
    """
    known = {f"--{each.flag}": each for each in options}
    as_json = {flag for flag, each in known.items() if each.is_json}
    plain: list[str] = []
    keyed: dict[str, dict[str, object]] = {}
    words = _Words(argv)
    while (argument := words.next()) is not None:
        name, equals, value = argument.partition("=")
        flag, dot, path = _dashed(name).partition(".")
        if dot and flag in as_json:
            text = value if equals else words.next()
            if text is None:
                raise UsageError(f"argument {name}: expected one argument")
            _put(keyed.setdefault(flag, {}), name, path, _value(text))
        elif flag in known:
            plain += _own(f"{_dashed(name)}{equals}{value}", known[flag], words)
        elif (found := _of_another(_dashed(name), equals, value, words)) is not None:
            words.put_back(found)
        else:
            plain.append(f"{_dashed(name)}{equals}{value}")
    return [*_without_json(plain, keyed), *_as_json(keyed)]


class _Words:
    """The words of a command line that are not yet read."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._rest = list(reversed(argv))
        # vLLM's options of several words take all that follow, so that its users write
        # the model in front, or with a flag.
        # Options with = may stand before it: keys of the environment do.
        first = next((word for word in argv if not _WHOLE.match(word)), "-")
        self.has_model = not first.startswith("-") or any(
            word.partition("=")[0] in ("--model", "--model-path") for word in argv
        )

    def next(self) -> str | None:
        return self._rest.pop() if self._rest else None

    def next_value(self) -> str | None:
        """Returns the next word and takes it, unless it is an option."""
        if not self._rest or _OPTION.match(self._rest[-1]):
            return None
        return self._rest.pop()

    def put_back(self, words: Iterable[str]) -> None:
        self._rest += reversed(list(words))


def _own(argument: str, option: Option, words: _Words) -> list[str]:
    """Returns one of our options, with the values that follow it."""
    flag, equals, value = argument.partition("=")
    if option.kind in (Kind.SWITCH, Kind.FLAG):
        return [argument]
    text = value if equals else words.next_value()
    if text is None:
        return [argument]
    texts = [text]
    if flag in SEVERAL and words.has_model and not equals:
        while (more := words.next_value()) is not None:
            texts.append(more)
    own = [_word(option, each) for each in texts]
    return [f"{flag}={each}" for each in own if each is not None]


def _word(option: Option, text: str) -> str | None:
    return text if text in option.choices else own_word(f"--{option.flag}", text)


def _of_another(
    flag: str, equals: str, value: str, words: _Words
) -> Sequence[str] | None:
    """Returns what stands for an option of another engine; None if nothing does."""
    if not equals and is_settled(flag, None):
        return ()
    if flag not in EXPANDED and not takes_settled_value(flag):
        return None
    text = value if equals else words.next_value()
    if text is None:
        return None
    if is_settled(flag, text):
        return ()
    if flag in EXPANDED and (found := EXPANDED[flag](text)):
        return found
    if not equals:
        words.put_back([text])
    return None


def _dashed(name: str) -> str:
    """Returns an option's name with dashes; keys after a dot keep their underscores."""
    if name.startswith("--"):
        flag, dot, path = name.partition(".")
        name = f"{flag.replace('_', '-')}{dot}{path}"
    return ALIASES.get(name, SHORT.get(name, name))


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
