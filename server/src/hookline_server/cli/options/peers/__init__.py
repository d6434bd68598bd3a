"""What vLLM and SGLang call what Hookline lacks or does by itself, and what to do."""

import textwrap
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from hookline_server.cli.options import renamed
from hookline_server.cli.options.peers import sglang, vllm

WIDTH = 79
_ALREADY = "\nalready so, and taken without effect, like --no- before the next options:"
ALWAYS = "it is always so; leave it out"

_CLIENT = "start hookline serve, and use any client of OpenAI's API"

COMMANDS: Mapping[str, str] = {
    "chat": _CLIENT,
    "collect-env": "use hookline version and hookline plugins",
    "complete": f"use hookline generate; or {_CLIENT}",
    "launch": "use hookline serve",
}
"""What to do instead of a command of another engine, by its name."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Options of another engine that Hookline does not have.

    Attributes:
        absent: Flags by what is said of what Hookline does not do; `--no-` before one
            asks for what is so anyway.
        otherwise: Flags by what to do instead.
        settled: Switches that ask for what is so anyway, and values of options that do.
        renamed: Names of options that Hookline has by another one.
    """

    title: str
    absent: Mapping[str, str]
    otherwise: Mapping[str, str]
    settled: Mapping[str, str]
    renamed: Mapping[str, str]

    def advice(self) -> Iterator[tuple[str, str]]:
        """Yields the flags that are refused, without dashes, and why."""
        for said in (self.absent, self.otherwise):
            for text, flags in said.items():
                yield from ((flag, text) for flag in flags.split())


PEERS: Mapping[str, Peer] = {
    "vllm": Peer("vLLM", vllm.ABSENT, vllm.OTHERWISE, vllm.SETTLED, renamed.OF_VLLM),
    "sglang": Peer(
        "SGLang", sglang.ABSENT, sglang.OTHERWISE, sglang.SETTLED, renamed.OF_SGLANG
    ),
}
"""Other engines by the name that `--help` takes."""

ADVICE: Mapping[str, str] = {
    flag: text for peer in PEERS.values() for flag, text in peer.advice()
}
"""What to do instead of an option, by its flag without leading dashes."""

_ABSENT = {
    flag
    for peer in PEERS.values()
    for flags in peer.absent.values()
    for flag in flags.split()
}
_SETTLED = {
    flag: values.split()
    for peer in PEERS.values()
    for flag, values in peer.settled.items()
}


def advice(flag: str) -> str | None:
    """Returns what to do instead of an option of another engine; None for others.

    Args:
        flag: The option's name; dashes and `no-` may precede it.
    """
    name = flag.removeprefix("--")
    found = ADVICE.get(name, ADVICE.get(name.removeprefix("no-")))
    if found is None and name.removeprefix("no-") in _SETTLED:
        return ALWAYS
    return found


def is_settled(flag: str, value: str | None) -> bool:
    """Whether an option of another engine asks for what is so anyway.

    Args:
        flag: The option's name with its dashes.
        value: What it is set to; None for a switch.
    """
    name = flag.removeprefix("--")
    if value is None:
        is_off = name.startswith("no-") and name.removeprefix("no-") in _ABSENT
        return is_off or _SETTLED.get(name) == []
    return value in _SETTLED.get(name, ())


def takes_settled_value(flag: str) -> bool:
    """Whether some values of an option of another engine ask for what is so anyway."""
    return bool(_SETTLED.get(flag.removeprefix("--")))


def described(name: str, own: Container[str]) -> str:
    """Returns what differs from another engine's command line, as text.

    Args:
        name: Key of `PEERS`.
        own: The flags that Hookline has, which it may have got since.
    """
    peer = PEERS[name]
    aliases = [f"  {theirs}  =  {ours}" for theirs, ours in peer.renamed.items()]
    settled = [
        f"--{flag} {'|'.join(values.split())}".rstrip()
        for flag, values in peer.settled.items()
        if flag not in own
    ]
    refused = [
        f"{_wrapped(_dashed(flags, own), '  ')}\n{_wrapped(text, '      ')}"
        for said in (peer.absent, peer.otherwise)
        for text, flags in said.items()
        if _dashed(flags, own)
    ]
    return "\n".join(
        [
            f"Options of {peer.title} that are not below have the same name here.\n",
            "other names that work:",
            *aliases,
            _ALREADY,
            _wrapped(", ".join(settled), "  "),
            "\nnot options of Hookline, and what to do:",
            *refused,
        ]
    )


def _dashed(flags: str, own: Container[str]) -> str:
    return " ".join(f"--{flag}" for flag in flags.split() if flag not in own)


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
