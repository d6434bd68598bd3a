"""Makes a man page of the tree of commands."""

import argparse
from collections.abc import Iterator

from hookline import __version__

_PRECEDENCE = (
    "Every option of a command with --config can also be set by a variable, such as "
    "HOOKLINE_MAX_NUM_SEQS, or in the YAML file that --config names. The command line "
    "takes precedence, then variables, then the file."
)


def man_page(tree: argparse.ArgumentParser) -> str:
    """Returns the page of section 1, in man's macros."""
    lines = [
        f'.TH HOOKLINE 1 "" "hookline {__version__}" "User Commands"',
        ".SH NAME",
        f"hookline \\- {_text(tree.description)}",
        ".SH SYNOPSIS",
        ".B hookline",
        "COMMAND [OPTIONS]",
        ".SH COMMANDS",
        *_commands(tree, "hookline"),
        ".SH ENVIRONMENT",
        _text(_PRECEDENCE),
    ]
    return "\n".join(lines)


def _commands(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """Yields the subcommands, or what the command itself takes."""
    inner = [
        action
        for action in parser._actions  # noqa: SLF001 - argparse has no other way
        if isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
    ]
    if not inner:
        yield f".SS {_text(name)}"
        yield _text(parser.description)
        yield from _options(parser)
    for action in inner:
        for word, each in action.choices.items():
            yield from _commands(each, f"{name} {word}")


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for group in parser._action_groups:  # noqa: SLF001
        shown = [
            action
            for action in group._group_actions  # noqa: SLF001
            if action.help != argparse.SUPPRESS
        ]
        if shown:
            yield f".PP\n.I {_text(group.title)}"
        for action in shown:
            yield from _option(action)


def _option(action: argparse.Action) -> Iterator[str]:
    value = action.metavar or (action.dest if action.nargs != 0 else "")
    shown = " ".join(value) if isinstance(value, tuple) else value
    names = ", ".join(action.option_strings)
    text = f"{names} {shown}".strip() if action.nargs != 0 else names
    yield ".TP"
    yield f".B {_text(text)}"
    help_text = (action.help or "").replace("%(default)s", str(action.default))
    yield _text(help_text.replace("%%", "%"))


def _text(text: str | None) -> str:
    """Returns a text that has no meaning to man: neither escapes nor requests."""
    plain = " ".join((text or "").split()).replace("\\", "\\e").replace("-", "\\-")
    plain = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in plain)
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
