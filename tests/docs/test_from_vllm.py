"""docs/from_vllm.md names commands, flags and methods that there are."""

import re
from pathlib import Path

import pytest

from hookline import LLM
from hookline_server.cli.command import command_names

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "from_vllm.md").read_text("utf-8")
METHODS = re.compile(
    r"^- There are (.*?); (.*?) are missing\.$", re.DOTALL | re.MULTILINE
)
NAME = re.compile(r"`(\w+)`")


def test_commands_exist() -> None:
    """
    Each command of Hookline on the page is one.
    """
    named = set(re.findall(r"`hookline ([\w-]+)", TEXT))

    assert named
    assert named <= set(command_names())


def test_flags_of_other_defaults_have_them() -> None:
    """
    The table's defaults are those of the list of options.
    """
    rows = re.findall(r"^\| `(--[\w-]+)` \| .*? \| (\S+) \|$", TEXT, re.MULTILINE)
    options = (DOCS / "server.md").read_text("utf-8")

    assert len(rows) == 3
    assert all(f"- `{flag}` ({default})" in options for flag, default in rows)


def test_methods_are_those_of_the_class() -> None:
    """
    What `LLM` has is told apart from what it lacks.
    """
    [(there, missing)] = METHODS.findall(TEXT)

    assert all(hasattr(LLM, name) for name in NAME.findall(there))
    assert not any(hasattr(LLM, name) for name in NAME.findall(missing))


@pytest.mark.slow
def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """
    It prints a text, why it ended, and a log-probability.
    """
    [example] = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)

    exec(compile(example, "from_vllm.md", "exec"), {})  # noqa: S102 - the page is ours

    assert re.search(r" length -\d+\.\d+$", capsys.readouterr().out.rstrip())
