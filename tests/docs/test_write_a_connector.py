"""The connector of docs/kv_connectors.md, built and installed as its readers would."""

import json
from collections.abc import Callable, Mapping
from typing import Protocol

import pytest

MOST_LINES = 60
RUN = """
import json

from hookline import LLM, SamplingParams
from hookline_metrics.transfer_stats import transfers_of

greedy = SamplingParams(temperature=0.0, max_tokens=16)
prompt = "def add(a, b):\\n    return a + b\\n\\n\\ndef multiply(a, b):\\n    return"
found = []
for chosen in (None, {"kv_connector": "attic"}, {"kv_connector": "attic"}):
    with LLM("demo", kv_transfer_config=chosen) as llm:
        [output] = llm.generate(prompt, greedy)
        stats = llm.front_end.engines[0].stats
        hits = transfers_of(stats).external_cache.hit_tokens
        found.append([output.outputs[0].text, hits])
print(json.dumps(found))
"""


class Installed(Protocol):
    """Of `install_example`."""

    def run(self, command: str, *arguments: str) -> str: ...


@pytest.fixture
def files(files_of: Callable[[str], dict[str, str]]) -> dict[str, str]:
    return files_of("kv_connectors.md")


def test_connector_is_short(files: dict[str, str]) -> None:
    """Without empty lines."""
    code = files["hookline_attic.py"].splitlines()

    assert set(files) == {"pyproject.toml", "hookline_attic.py"}
    assert len([line for line in code if line]) <= MOST_LINES


@pytest.mark.exhaustive
@pytest.mark.timeout(180)
def test_connector_works_where_it_is_installed(
    files: dict[str, str], install_example: Callable[[Mapping[str, str]], Installed]
) -> None:
    """From its wheel: what one engine computed another one loads, to the same text."""
    installed = install_example(files)

    plain, saving, loading = json.loads(
        installed.run("python", "-c", RUN).splitlines()[-1]
    )

    assert saving == [plain[0], 0]
    assert loading[0] == plain[0]
    assert loading[1] >= 16
