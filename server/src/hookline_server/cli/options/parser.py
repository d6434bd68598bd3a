"""The argparse parser made of options."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn, cast

from hookline.config.sections import missing_distribution
from hookline_description.overriding import merged
from hookline_registry.spelling import did_you_mean
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.command_parser import CommandParser
from hookline_server.cli.options.help import WIDTH, asked_help, show_help
from hookline_server.cli.options.option import Kind, Option
from hookline_server.cli.options.peers import advice

OPERANDS = ("--prompt", "--model")
"""Options whose value other programs take without a flag."""


class Parser(CommandParser):
    """Raises `UsageError` instead of printing and exiting.

    Attributes:
        flags: Names of the options, with leading dashes.
        options: The options.
        operand: Option whose value may also stand without its flag; None if no option's
            may.
    """

    flags: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    operand: Option | None = None

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def show_help(self, topic: str) -> None:
        """Prints the help of a topic, which `--help=TOPIC` names."""
        command = self.prog.removeprefix("hookline ")

        def whole(options: Sequence[Option]) -> str:
            shown = make_parser(command, self.description or "", options)
            shown.usage = self.usage
            return shown.format_help().rstrip()

        show_help(topic, command, self.options, whole)

    def refuse(self, rest: Sequence[str]) -> None:
        """Raises `UsageError` if arguments are left that no option takes."""
        if not rest:
            return
        flagged = [each for each in rest if each.startswith("-")]
        first = (flagged or rest)[0].partition("=")[0]
        shown = " ".join(rest)
        if first.startswith("-"):
            if (instead := advice(first.replace("_", "-"))) is not None:
                raise UsageError(f"{first} is not an option of Hookline: {instead}")
            flag = first.replace("_", "-")
            if (reason := missing_distribution(flag.removeprefix("--"))) is not None:
                raise UsageError(f"{flag} {reason}")
            # Without values: a misspelt option may be followed by a key.
            shown = " ".join(each.partition("=")[0] for each in flagged)
            option = flag.partition(".")[0]  # with a key, which it does not take
            meant = option if option in self.flags else None
            hint = did_you_mean(meant or flag, self.flags)
        else:
            found = [flag for flag in OPERANDS if flag in self.flags]
            hint = f"; did you mean {found[0]} {first}?" if found else ""
        raise UsageError(f"unrecognized arguments: {shown}{hint}")


class Merge(argparse.Action):
    """Merges the mappings of a repeated option; the last value of a key wins."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        """Merges one more mapping."""
        before = cast("Mapping[str, object]", getattr(namespace, self.dest, {}))
        joined = merged(before, cast("Mapping[str, object]", values))
        setattr(namespace, self.dest, joined)


ACTIONS: Mapping[Kind, str | type[argparse.Action]] = {
    Kind.VALUE: "store",
    Kind.LIST: "append",
    Kind.WORDS: "extend",
    Kind.MAP: Merge,
}


def make_parser(
    command: str,
    description: str,
    options: Iterable[Option],
    *,
    operands: Sequence[str] = (),
    operand: str | None = None,
) -> Parser:
    """Returns a parser whose result holds the operands and the options that are set.

    Args:
        command: The subcommand.
        description: One sentence for the help.
        options: All options.
        operands: Names of arguments without a flag that must be given.
        operand: Flag of an option whose value may also stand without the flag.
    """
    shown = "".join(f" {name}" for name in operands)
    if operand is not None:
        shown = f" [{operand.upper()}]"
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
        parser.flags += (f"--{option.flag}",)
        parser.options += (option,)
        if option.flag == operand:
            parser.operand = option
    return parser


def parse_known(
    parser: Parser, argv: Sequence[str]
) -> tuple[dict[str, object], list[str]]:
    """Returns the values that are set, by target, and the rest; `--help` ends here.

    Raises:
        UsageError: An argument is wrong.
    """
    if (topic := asked_help(argv)) is not None:
        parser.show_help(topic)
        raise SystemExit(0)
    namespace, rest = parser.parse_known_args(argv)
    return vars(namespace), rest


def parse(parser: Parser, argv: Sequence[str]) -> dict[str, object]:
    """Returns the values that are set, by target.

    Raises:
        UsageError: An argument is unknown or wrong.
    """
    found, rest = parse_known(parser, argv)
    operand = parser.operand
    # argparse does not allow its own optional operands after options.
    if operand is not None and len(rest) == 1 and not rest[0].startswith("-"):
        if found.setdefault(operand.target, rest[0]) != rest[0]:
            given = found[operand.target]
            raise UsageError(
                f"{rest[0]} and --{operand.flag} {given} contradict each other"
            )
        rest = []
    parser.refuse(rest)
    return found


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
        group.add_argument(
            name,
            dest=option.target,
            action="store_const",
            const=option.constant,
            help=text,
        )
    else:
        group.add_argument(
            name,
            dest=option.target,
            action=ACTIONS[option.kind],
            type=_typed(option.parse),
            choices=option.choices or None,
            metavar=_metavar(option),
            help=text,
        )


def _typed(read: Callable[[str], object]) -> Callable[[str], object]:
    def typed(text: str) -> object:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return typed


def _help(option: Option) -> str:
    default = "" if option.default is None else f" (default: {option.default})"
    words = "" if _fits(option) else f" One of {', '.join(option.choices)}."
    return f"{option.help}{words}{default}".replace("%", "%%")


def _metavar(option: Option) -> str:
    if option.choices and _fits(option):
        return _braced(option.choices)
    return option.metavar or option.flag.rsplit("-", maxsplit=1)[-1].upper()


def _fits(option: Option) -> bool:
    """Whether the option and the words that it takes fit a line of a terminal."""
    return len(f"  --{option.flag} {_braced(option.choices)}") < WIDTH


def _braced(words: Sequence[str]) -> str:
    return "{" + ",".join(words) + "}"
