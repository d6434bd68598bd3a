"""The plugin of docs/write-a-plugin.md, built and installed as its readers would."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import pytest

MOST_LINES = 30
PROMPT = "def add(a, b):"
RECEIPT = re.compile(r"^length, 5 tokens, TTFT \d+\.\d+ s$", flags=re.MULTILINE)


class Installed(Protocol):
    """Of `install_example`."""

    folder: Path
    project: Path

    def run(self, command: str, *arguments: str, cwd: Path | None = None) -> str: ...


@pytest.fixture
def files(files_of: Callable[[str], dict[str, str]]) -> dict[str, str]:
    return files_of("write-a-plugin.md")


def test_plugin_is_short(files: dict[str, str]) -> None:
    """Both files together have at most thirty lines."""
    lines = [line for source in files.values() for line in source.splitlines()]

    assert set(files) == {"pyproject.toml", "hookline_receipts.py"}
    assert len(lines) <= MOST_LINES


@pytest.mark.exhaustive
@pytest.mark.timeout(180)
def test_plugin_works_where_it_is_installed(
    files: dict[str, str], install_example: Callable[[Mapping[str, str]], Installed]
) -> None:
    """In a clean environment beside Hookline's wheels its output is seen, its option
    is heard, and its class can be named by path."""
    installed = install_example(files)

    ask = "import hookline, hookline_server; print(hookline.__file__)"
    home = installed.run("python", "-c", ask)
    assert Path(home.strip()).is_relative_to(installed.folder)
    generate = ["generate", "--model", "demo", "--prompt", PROMPT]
    generate += ["--max-tokens", "5", "--ignore-eos"]
    text = installed.run("hookline", *generate, "--stat-logger", "receipts")
    assert RECEIPT.search(text), text
    assert PROMPT in text
    generate += ["--executor", "simulated"]
    option = ["--stat-logger-option", "receipts.seconds=3600"]
    text = installed.run("hookline", *generate, "--stat-logger", "receipts", *option)
    assert "TTFT" not in text
    by_path = ["--stat-logger", "hookline_receipts:Receipts"]
    text = installed.run("hookline", *generate, *by_path, cwd=installed.project)
    assert RECEIPT.search(text), text
