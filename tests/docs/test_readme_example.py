"""The README's example runs."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def test_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """It completes both prompts with the demo model, and has ten lines at most."""
    [source] = re.findall(
        r"^```python\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL
    )

    exec(compile(source, "README.md", "exec"), {})  # noqa: S102

    printed = capsys.readouterr().out
    assert len(source.splitlines()) <= 10
    assert "def read_lines(path):" in printed
    assert "class Stack:" in printed
    assert printed.count("\n[length]\n") + printed.count("\n[stop]\n") == 2
