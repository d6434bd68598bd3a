"""The help of a command: short by itself, and whole for a group or an option."""

import pydoc
import textwrap
from collections.abc import Callable, Iterable, Sequence

from hookline_registry.spelling import did_you_mean
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.option import Option
from hookline_server.cli.options.peers import PEERS, advice, described
from hookline_server.cli.options.renamed import ALIASES
from hookline_server.cli.output import say

SHORT = "short"
ALL, PAGE, LIST_GROUPS = "all", "page", "listgroup"
FEW_OPTIONS = 40
"""Number of options up to which the short help has all of them."""
WIDTH = 79

Shown = Callable[[Sequence[Option]], str]
"""Returns the help of a command that had only these options."""


def asked_help(argv: Sequence[str]) -> str | None:
    """Returns what `--help` asks for; None if it does not stand there."""
    for argument in argv:
        name, equals, topic = argument.partition("=")
        if argument == "-h" or name == "--help":
            return topic if equals and topic else SHORT
    return None


def show_help(
    topic: str, command: str, options: Sequence[Option], whole: Shown
) -> None:
    """Prints the help of a topic.

    Args:
        topic: `short`, `all`, `page`, `listgroup`, the name of another engine, or what
            is looked for among groups and options.
        command: The subcommand.
        options: All its options.
        whole: Returns the whole help of some options.

    Raises:
        UsageError: Nothing is known of the topic.
    """
    if topic == ALL or (topic == SHORT and len(options) <= FEW_OPTIONS):
        say(whole(options))
    elif topic in (SHORT, LIST_GROUPS):
        say(_short(command, options, whole([])))
    elif topic == PAGE:
        pydoc.pager(whole(options))
    elif topic.casefold() in PEERS:
        say(described(topic.casefold(), {each.flag for each in options}))
    else:
        say(_found(topic, options, whole))


def _short(command: str, options: Sequence[Option], head: str) -> str:
    groups = "\n".join(_group(name, flags) for name, flags in _grouped(options))
    return (
        f"{head.partition(chr(10) * 2 + 'options:')[0].rstrip()}\n\n"
        f"  hookline {command} --help=GROUP   the options of a group, in full\n"
        f"  hookline {command} --help=OPTION  an option, or all with this in their "
        "names\n"
        f"  hookline {command} --help=all     everything; --help=page in a pager\n"
        f"  hookline {command} --help=vllm    what differs from vLLM; =sglang likewise"
        f"\n\n{groups}"
    )


def _group(name: str, flags: Iterable[str]) -> str:
    text = " ".join(f"--{flag}" for flag in flags)
    shown = textwrap.fill(
        text,
        WIDTH,
        initial_indent="  ",
        subsequent_indent="  ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    return f"{name}:\n{shown}"


def _grouped(options: Iterable[Option]) -> list[tuple[str, list[str]]]:
    groups: dict[str, list[str]] = {}
    for each in options:
        groups.setdefault(each.group, []).append(each.flag)
    return list(groups.items())


def _found(topic: str, options: Sequence[Option], whole: Shown) -> str:
    """Returns the help of the options that a topic names, or what is said of it."""
    words = topic.strip("-").replace("_", "-").casefold()
    flag = ALIASES.get(f"--{words}", words).partition("=")[0].strip("-")
    flags = {each.flag for each in options}
    if flag not in flags and flag.removeprefix("no-") in flags:
        flag = flag.removeprefix("no-")
    # vLLM's groups have the names of its classes: SchedulerConfig is our scheduler.
    group = topic.casefold().removesuffix("config").replace("-", " ").strip()
    candidates = (
        [each for each in options if each.flag == flag],
        [each for each in options if each.group.casefold() == group],
        [each for each in options if group and group in each.group.casefold().split()],
        [each for each in options if words in each.flag],
        [each for each in options if group and group in each.group.casefold()],
    )
    if found := next(filter(None, candidates), None):
        return whole(found)
    if (instead := advice(words)) is not None:
        return f"--{words} is not an option of Hookline: {instead}"
    known = [*flags, *(each.group for each in options)]
    raise UsageError(f"no option or group {topic!r}{did_you_mean(words, known)}")
