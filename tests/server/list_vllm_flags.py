"""Prints the flags of `vllm serve`; the Python of an environment with vLLM runs it."""

import argparse
import sys
from importlib import import_module

JSON_HINTS = ("dict", "loads", "_parse_type", "parse_dataclass")
MOST_CHOICES = 12


def described(action: argparse.Action) -> str:
    """Returns the names of a flag, how it takes a value, and what the value is."""
    names = [
        name
        for name in action.option_strings
        if not name.startswith("--no-") or f"--{name[5:]}" not in action.option_strings
    ]
    takes, word = "value", _word(action)
    if len(names) < len(action.option_strings):
        takes, word = "±", ""
    elif action.nargs == 0 or type(action).__name__ == "_HelpAction":
        takes, word = "-", ""
    elif action.nargs == "+":
        takes = "several"
    elif type(action).__name__ == "_AppendAction":
        takes = "repeated"
    return f"{' '.join(names) or 'MODEL'} | {takes} | {word}".rstrip(" |")


def _word(action: argparse.Action) -> str:
    kind = getattr(action.type, "__name__", str(action.type))
    if action.choices:
        choices = [str(each) for each in action.choices if each is not None]
        return "|".join(choices) if len(choices) < MOST_CHOICES else f"{choices[0]}|…"
    if kind in ("int", "float"):
        return kind
    if kind.startswith("human_readable_int"):
        return "number"
    is_json = any(hint in kind for hint in JSON_HINTS)
    return "json" if is_json or "JSON" in (action.help or "") else "text"


def main() -> None:
    """Prints a line for each."""
    cli_args = import_module("vllm.entrypoints.launchers.cli_args")
    utils = import_module("vllm.utils.argparse_utils")
    parser = cli_args.make_arg_parser(utils.FlexibleArgumentParser())
    lines = [described(each) for each in parser._actions]
    sys.stdout.write("\n".join(["flags of vllm serve:", *lines]) + "\n")


if __name__ == "__main__":
    main()
