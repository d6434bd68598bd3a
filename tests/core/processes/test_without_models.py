"""Without the distribution hookline-models nothing runs a model."""

import subprocess
import sys

import pytest

from hookline import LLM, SamplingParams
from hookline.exceptions import ConfigError

ABSENT = r"^executor: uniproc.* belongs to hookline-models, which is not installed"
SIMULATES = """
import sys

sys.modules["hookline_models"] = None  # cannot be imported

from hookline import LLM, SamplingParams

with LLM(executor="simulated", in_process=True) as llm:
    [output] = llm.generate([[5]], SamplingParams(max_tokens=3), use_tqdm=False)
    print(output.outputs[0].output_tokens, "torch" in sys.modules)
"""


@pytest.fixture(autouse=True)
def no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKLINE_PLUGINS", "no:hookline-models")


@pytest.mark.parametrize("in_process", [True, False])
def test_a_model_is_refused(*, in_process: bool) -> None:
    """The error names the distribution, from either process."""
    with pytest.raises(ConfigError, match=ABSENT):
        LLM("demo", in_process=in_process)


@pytest.mark.slow
def test_a_server_ends_with_one_clear_line() -> None:
    """It says what to install, and shows no traceback."""
    command = [sys.executable, "-m", "hookline_server", "serve", "--port", "0"]

    result = subprocess.run(command, check=False, capture_output=True, text=True)

    assert result.returncode != 0
    assert "pip install hookline-models" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_simulated_executor_generates() -> None:
    """It imports nothing of the distribution."""
    result = subprocess.run(
        [sys.executable, "-c", SIMULATES], check=True, capture_output=True, text=True
    )

    assert result.stdout.split() == ["3", "False"]


def test_simulated_engines_have_processes() -> None:
    """They start without what loads models, too."""
    with LLM(executor="simulated", in_process=False) as llm:
        [output] = llm.generate([[5]], SamplingParams(max_tokens=3), use_tqdm=False)

    assert output.outputs[0].output_tokens == 3
