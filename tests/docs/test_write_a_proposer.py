"""The proposer of docs/speculative.md, installed and run."""

import re
from pathlib import Path

from hookline import LLM, SamplingParams
from hookline.testing.plugin_site import PluginSite

PAGE = (Path(__file__).parents[2] / "docs" / "speculative.md").read_text("utf-8")
[SOURCE] = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
MOST_LINES = 30
PROMPT = "def add(a, b):\n    return a + b\n\n\ndef add(a, b):\n"


def test_proposer_drafts_and_changes_nothing(tmp_path: Path) -> None:
    """It is short, its drafts are verified, and the text is the same."""
    code = [line for line in SOURCE.splitlines() if line and "import" not in line]
    params = SamplingParams(temperature=0.0, max_tokens=48)
    with LLM("demo") as llm:
        [plain] = llm.generate(PROMPT, params)

    with PluginSite(tmp_path) as site:
        site.install("pair_memory", SOURCE, group="hookline.proposers")
        chosen = {"method": "pair_memory", "num_speculative_tokens": 3}
        with LLM("demo", speculative_config=chosen) as llm:
            [output] = llm.generate(PROMPT, params)

    assert len(code) <= MOST_LINES
    assert output.completions[0].text == plain.completions[0].text
    assert output.completions[0].draft_tokens > 0
