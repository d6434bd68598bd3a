"""`hookline completion`: scripts for shells and a man page, of all commands."""

import shutil
import subprocess
from pathlib import Path

import pytest
import shtab

from hookline.plugins.kinds import COMMAND
from hookline_completion.completion import SHELLS
from hookline_completion.man_page import man_page
from hookline_completion.tree import command_tree
from hookline_server.cli import main
from hookline_server.cli.command import command_names
from hookline_server.cli.options.command_parser import parser_of
from hookline_testing.plugin_site import PluginSite

TREE = command_tree()
ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_shtab_hookline hookline "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns bash's script."""
    path = tmp_path_factory.mktemp("completion") / "hookline.bash"
    path.write_text(shtab.complete(TREE, shell="bash"))  # noqa: S604 - no command
    return path


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        (["se"], ["serve"]),
        (["serve", "--max-num-s"], ["--max-num-seqs"]),
        (["serve", "--dtype", "fl"], ["float16", "float32"]),
        (["serve", "--stat-logger", "prom"], ["prometheus"]),
        (["serve", "--executor", "sim"], ["simulated"]),
        (["bench", "thr"], ["throughput"]),
        (["bench", "serve", "--random-p"], ["--random-prefix-len"]),
        (["models", "pu"], ["pull"]),
        (["why", "--ea"], ["--eats"]),
        (["plugins", "doc"], ["doctor"]),
    ],
)
def test_bash_completes(script: Path, words: list[str], completions: list[str]) -> None:
    """Commands, options, their words, and names of installed plugins."""
    argv = ["bash", "-c", ASK, "bash", str(script), "hookline", *words]

    done = subprocess.run(argv, capture_output=True, text=True, check=True)

    assert sorted(done.stdout.split()) == completions


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_know_every_command(shell: str) -> None:
    """Each shell's script has the commands, and an option of the engine."""
    text = shtab.complete(TREE, shell=shell)

    assert all(name in text for name in command_names())
    assert "max-num-seqs" in text
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n"], input=text, text=True, check=True)


def test_the_man_page_has_every_command_and_option() -> None:
    """Also those of plugins, and it holds only what man understands."""
    page = man_page(TREE)

    for name in command_names():
        assert f"hookline {name}".replace("-", "\\-") in page
    for action in parser_of(lambda argv: main(["serve", *argv]))._actions:
        for flag in action.option_strings:
            assert flag.replace("-", "\\-") in page
    assert page.isascii()
    if (groff := shutil.which("groff")) is not None:
        argv = [groff, "-man", "-Tutf8", "-z", "-wall", "-Wbreak"]
        done = subprocess.run(
            argv, input=page, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""


@pytest.mark.parametrize(
    ("argv", "begins"), [(["bash"], "# AUTOMATICALLY"), (["--for=man"], ".TH HOOKLINE")]
)
def test_the_command_prints(
    capsys: pytest.CaptureFixture[str], argv: list[str], begins: str
) -> None:
    """A script or the page; the shell may stand without its flag."""
    assert main(["completion", *argv]) == 0
    assert begins in capsys.readouterr().out[:200]


def test_an_unknown_shell_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With the shells that there are."""
    assert main(["completion", "cmd.exe"]) == 2
    assert "choose from 'bash', 'zsh', 'fish', 'man'" in capsys.readouterr().err


def test_a_command_of_others_is_named_but_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that does not say that it has a parser is not asked for it."""
    source = (
        "from hookline_server.cli.command import Command\n"
        "COMMAND = Command('greet', 'greeter')\n"
        "def run(argv): print('ran', argv)\n"
    )
    with PluginSite(tmp_path) as site:
        site.install("greeter", source, attribute="COMMAND", group=COMMAND.group)
        text = shtab.complete(command_tree(), shell="bash")  # noqa: S604

    assert "greeter" in text
    assert "ran" not in capsys.readouterr().out


def test_what_parses_nothing_has_no_parser() -> None:
    """A command of a plugin that reads its arguments itself is told."""
    with pytest.raises(LookupError, match="has no CommandParser"):
        parser_of(lambda _: 0)
