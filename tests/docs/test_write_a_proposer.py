"""The proposer of docs/speculative.md, built and installed as its readers would."""

import json
from collections.abc import Callable, Mapping
from typing import Protocol

import pytest

MOST_LINES = 30
RUN = """
import json
import sys

from hookline import LLM, SamplingParams

chosen = json.loads(sys.argv[1])
with LLM("demo", speculative_config=chosen) as llm:
    prompt = "def add(a, b):\\n    return a + b\\n\\n\\ndef add(a, b):\\n"
    [output] = llm.generate(prompt, SamplingParams(temperature=0.0, max_tokens=48))
[done] = output.outputs
print(json.dumps([done.text, done.draft_tokens, done.accepted_tokens]))
"""


class Installed(Protocol):
    """Of `install_example`."""

    def run(self, command: str, *arguments: str) -> str: ...


@pytest.fixture
def files(files_of: Callable[[str], dict[str, str]]) -> dict[str, str]:
    return files_of("speculative.md")


def test_proposer_is_short(files: dict[str, str]) -> None:
    """Without what it imports."""
    code = files["pair_memory.py"].splitlines()

    assert set(files) == {"pyproject.toml", "pair_memory.py"}
    assert len([line for line in code if line and "import" not in line]) <= MOST_LINES


@pytest.mark.exhaustive
@pytest.mark.timeout(180)
def test_proposer_works_where_it_is_installed(
    files: dict[str, str], install_example: Callable[[Mapping[str, str]], Installed]
) -> None:
    """From its wheel; its drafts are verified, and the text is the same."""
    installed = install_example(files)

    def run(chosen: object) -> tuple[str, int, int]:
        last = installed.run("python", "-c", RUN, json.dumps(chosen)).splitlines()[-1]
        text, drafts, accepted = json.loads(last)
        return text, drafts, accepted

    plain, none, _ = run(None)
    found, drafts, accepted = run(
        {"method": "pair_memory", "num_speculative_tokens": 3}
    )

    assert found == plain
    assert none == 0
    assert 0 < accepted <= drafts
