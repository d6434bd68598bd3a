"""`hookline completion`: prints what completes in a shell, or a man page."""

import shtab

from hookline_completion.man_page import man_page
from hookline_completion.tree import command_tree
from hookline_server.cli.options.option import Option
from hookline_server.cli.options.parser import make_parser, parse
from hookline_server.cli.output import say

MAN = "man"
SHELLS = ("bash", "zsh", "fish")
WHAT = Option(
    flag="for",
    target="run.what",
    group="output",
    choices=(*SHELLS, MAN),
    help="Shell, or man for a man page; it may stand without the flag.",
)


def run(argv: list[str]) -> int:
    """Prints a script or the page."""
    parser = make_parser(
        "completion",
        "Prints a script that completes commands in a shell, or a man page.",
        [WHAT],
        operand=WHAT.flag,
    )
    given = parse(parser, [f"--for={argv[0]}"] if _is_operand(argv) else argv)
    what = str(given.get(WHAT.target, SHELLS[0]))
    tree = command_tree()
    say(man_page(tree) if what == MAN else shtab.complete(tree, shell=what).rstrip())
    return 0


def _is_operand(argv: list[str]) -> bool:
    return len(argv) == 1 and not argv[0].startswith("-")
