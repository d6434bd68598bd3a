"""The processor of docs/logits_processors.md, built and installed as readers would."""

import json
from collections.abc import Callable, Mapping
from typing import Protocol

import pytest

RUN = """
import json

from hookline import LLM, SamplingParams

with LLM("demo", logits_processor=["no_repeat"]) as llm:
    wanted = [{}, {"no_repeat_ngram_size": 3}]
    params = [
        SamplingParams(temperature=0.0, max_tokens=64, ignore_eos=True, extra_args=each)
        for each in wanted
    ]
    outputs = llm.generate(["def add(a, b):"] * 2, params)
print(json.dumps([output.outputs[0].token_ids for output in outputs]))
"""


class Installed(Protocol):
    """What `install_example` returns."""

    def run(self, command: str, *arguments: str) -> str: ...


def repeats(token_ids: list[int]) -> int:
    """Counts runs of three tokens that came before."""
    runs = list(zip(token_ids, token_ids[1:], token_ids[2:], strict=False))
    return len(runs) - len(set(runs))


@pytest.mark.exhaustive
@pytest.mark.timeout(180)
def test_processor_works_where_it_is_installed(
    files_of: Callable[[str], dict[str, str]],
    install_example: Callable[[Mapping[str, str]], Installed],
) -> None:
    """Only the request that names its argument repeats no run of three tokens."""
    files = files_of("logits_processors.md")
    assert set(files) == {"pyproject.toml", "hookline_no_repeat.py"}
    installed = install_example(files)

    listed = installed.run("hookline", "plugins", "--json")
    plain, constrained = json.loads(installed.run("python", "-c", RUN).splitlines()[-1])

    assert [
        row["kind"] for row in json.loads(listed) if row["name"] == "no_repeat"
    ] == ["logits_processor"]
    assert repeats(plain) > 0
    assert repeats(constrained) == 0
