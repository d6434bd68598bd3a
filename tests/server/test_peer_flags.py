"""Every flag of `vllm serve`, and SGLang's most used, works or is answered."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.options.parser import make_parser, parse
from hookline_server.cli.options.peers import PEERS, advice, described
from hookline_server.cli.options.renamed import ALIASES, OF_SGLANG, OF_VLLM
from hookline_server.cli.options.server import server_options
from hookline_server.cli.options.spelling import respelt
from hookline_testing.table_walk import for_each_row
from hookline_testing.vllm_server import VENV

HERE = Path(__file__).parent
STORED = HERE / "vllm_flags.txt"
OPTIONS = [*server_options(), *engine_options()]
PARSER = make_parser("serve", "Serves.", OPTIONS, operand="model")
SAMPLES = {"int": "1", "float": "0.5", "number": "8k", "json": "{}", "text": "x"}
REFUSED = "is not an option of Hookline: "
OF_OURS = {
    "--max-cpu-loras": "8",
    # Their words for these differ from ours: at least one of ours is taken.
    "--all2all-backend": "allgather_reducescatter",
    "--custom-histogram-buckets": '{"request_latency": [1, 2]}',
    "--collect-detailed-traces": "all",
    "--kv-transfer-config": '{"kv_connector": "cpu_offload"}',
    "--kv-cache-memory-bytes": "8G",
    "--kv-offloading-size": "0.5",
    "--load-format": "auto",
    "--max-num-queued-reqs": "8",
    "--max-num-queued-tokens": "8k",
    "--num-gpu-blocks-override": "8",
    "--model": "demo",
    "--model-path": "demo",
    "--tokenizer-mode": "auto",
    "--quantization": "awq",
    "--load-balance-method": "round_robin",
}


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of another engine, in a line of a stored list."""

    names: tuple[str, ...]
    takes: str
    word: str

    @classmethod
    def of(cls, line: str) -> "Flag":
        names, takes, word, *_ = [each.strip() for each in f"{line}||".split("|", 3)]
        word = line.split("|", 2)[2].strip() if line.count("|") > 1 else ""
        return cls(tuple(names.split()), takes, word)

    def command_lines(self) -> Iterator[tuple[str, list[list[str]]]]:
        """Yields each name, and command lines of which one is to be answered."""
        for name in self.names:
            if self.takes in ("-", "±"):
                yield name, [[name]]
                if self.takes == "±" and name.startswith("--"):
                    negated = f"--no-{name.removeprefix('--')}"
                    yield negated, [[negated]]
            else:
                yield name, [[name, each] for each in self.samples()]

    def samples(self) -> list[str]:
        """Returns values of which at least one has to be taken."""
        if (own := OF_OURS.get(self.names[0])) is not None:
            return [own]
        choices = self.word.replace("…", "").split("|") if "|" in self.word else []
        return [each for each in choices if each] or [SAMPLES.get(self.word, self.word)]


def flags(file: str) -> list[Flag]:
    return [Flag.of(line) for line in (HERE / file).read_text().splitlines()]


def answer(argv: list[str]) -> str:
    """Returns an empty text for what is taken, or the error."""
    try:
        parse(PARSER, respelt(["demo", *argv], OPTIONS))
    except UsageError as error:
        return str(error)
    return ""


@for_each_row("flag", [*flags("vllm_flags.txt"), *flags("sglang_flags.txt")])
def test_every_flag_of_others_works_or_is_answered(flag: Flag) -> None:
    """It is taken with a value of theirs, or one line says what to do instead."""
    if flag.names[0] in ("-h", "MODEL"):
        return
    for name, command_lines in flag.command_lines():
        answers = [answer(argv) for argv in command_lines]
        assert "" in answers or all(REFUSED in each for each in answers), (
            name,
            answers,
        )


def test_the_stored_list_has_every_flag_once() -> None:
    """As many as vLLM 0.32 has, and none twice."""
    names = [name for flag in flags("vllm_flags.txt") for name in flag.names]

    assert len(flags("vllm_flags.txt")) == 318
    assert len(set(names)) == len(names)
    assert len(flags("sglang_flags.txt")) >= 40


@pytest.mark.vllm
def test_the_stored_list_is_that_of_the_installed_vllm() -> None:
    """Its own parser has these flags, with these names and values."""
    script = HERE / "list_vllm_flags.py"
    done = subprocess.run(
        [f"{VENV}/bin/python", str(script)], capture_output=True, text=True, check=True
    )
    _, _, listed = done.stdout.partition("flags of vllm serve:\n")

    assert listed.splitlines() == STORED.read_text().splitlines()


@for_each_row("alias", ALIASES)
def test_other_names_lead_to_options(alias: str) -> None:
    """What a name stands for is one of our options."""
    flag = ALIASES[alias].partition("=")[0].partition(".")[0].removeprefix("--")

    known = {each.flag for each in OPTIONS}
    assert flag in known or flag.removeprefix("no-") in known


@for_each_row("peer", PEERS)
def test_advice_names_options_that_exist(peer: str) -> None:
    """Each option that an answer tells to use is one of ours."""
    known = {f"--{each.flag}" for each in OPTIONS} | {
        "--logging-interval",  # of loggers
        "--request-log-prompts",
    }
    for _, text in PEERS[peer].advice():
        for word in text.replace(",", " ").replace(";", " ").replace(":", " ").split():
            if word.startswith("--"):
                assert word.partition(".")[0] in known, text


def test_what_differs_is_shown() -> None:
    """`--help=vllm` has the renamed, the settled and the refused options."""
    shown = described("vllm", {each.flag for each in OPTIONS})

    assert "--num-gpu-blocks-override  =  --num-kv-blocks" in shown
    assert "only --engine vllm serves such LoRA adapters" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert advice("--no-enable-mm-embeds") is not None
    assert not OF_VLLM.keys() & OF_SGLANG.keys()
