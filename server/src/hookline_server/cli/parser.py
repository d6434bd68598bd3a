"""Options as data, and the argparse parser made of them."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn


class UsageError(Exception):
    """A command line or a configuration file that makes no sense."""


class Kind(Enum):
    """How an option takes its value."""

    VALUE = "value"
    LIST = "list"
    WORDS = "words"
    MAP = "map"
    SWITCH = "switch"
    FLAG = "flag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of the command line, and one key of the configuration file.

    Attributes:
        flag: Its name, without dashes in front.
        target: Dotted path of the setting that it gives.
        group: Heading in the help.
        help: What it does.
        kind: `SWITCH` also has a `--no-` form; `LIST`, `WORDS` and `MAP` may be
            repeated.
        parse: Makes a value of the text; a list of them for `WORDS`, a mapping for
            `MAP`, which are put together.
        metavar: Stands for the value in the help.
        choices: The words it takes; any where empty.
        default: What the help tells of the default; nothing where None.
    """

    flag: str
    target: str
    group: str
    help: str
    kind: Kind = Kind.VALUE
    parse: Callable[[str], object] = str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    default: str | None = None


class Update(argparse.Action):
    """Puts the mappings of a repeated option together; the last one wins."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        """Takes in one more mapping."""
        assert isinstance(values, Mapping)
        before: dict[object, object] = getattr(namespace, self.dest, {})
        setattr(namespace, self.dest, {**before, **values})


ACTIONS: Mapping[Kind, str | type[argparse.Action]] = {
    Kind.VALUE: "store",
    Kind.LIST: "append",
    Kind.WORDS: "extend",
    Kind.MAP: Update,
}


class Parser(argparse.ArgumentParser):
    """Raises `UsageError` rather than printing and exiting."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def make_parser(
    command: str,
    description: str,
    options: Iterable[Option],
    *,
    operands: Sequence[str] = (),
) -> argparse.ArgumentParser:
    """A parser whose result holds the operands and, of the options, what was given."""
    shown = "".join(f" {name}" for name in operands)
    parser = Parser(
        prog=f"hookline {command}",
        usage=f"hookline {command} [OPTIONS]{shown}",
        description=description,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    for name in operands:
        parser.add_argument(name)
    groups: dict[str, argparse._ArgumentGroup] = {}
    for option in options:
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        _add(groups[option.group], option)
    return parser


def parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> dict[str, object]:
    """The given settings by target."""
    return vars(parser.parse_args(argv))


def _add(group: argparse._ArgumentGroup, option: Option) -> None:
    name = f"--{option.flag}"
    text = _help(option)
    if option.kind is Kind.SWITCH:
        group.add_argument(
            name,
            dest=option.target,
            action=argparse.BooleanOptionalAction,
            help=text,
        )
    elif option.kind is Kind.FLAG:
        group.add_argument(name, dest=option.target, action="store_true", help=text)
    else:
        group.add_argument(
            name,
            dest=option.target,
            action=ACTIONS[option.kind],
            type=option.parse,
            choices=option.choices or None,
            metavar=_metavar(option),
            help=text,
        )


def _help(option: Option) -> str:
    default = "" if option.default is None else f" (default: {option.default})"
    return f"{option.help}{default}".replace("%", "%%")


def _metavar(option: Option) -> str:
    if option.choices:
        return "{" + ",".join(option.choices) + "}"
    return option.metavar or option.flag.rsplit("-", maxsplit=1)[-1].upper()
