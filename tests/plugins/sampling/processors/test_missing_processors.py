"""What happens to requests where the usual logits processors are not installed."""

from dataclasses import replace

import pytest

from hookline import LLM, ConfigError, RequestError, SamplingParams
from hookline.config import EngineConfig, ExecutorConfig, Kernels, ModelConfig

CONFIG = EngineConfig(
    model=ModelConfig(model="demo"), executor=ExecutorConfig(kernels=Kernels.TORCH)
)


@pytest.fixture
def _left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """No distribution has a logits processor."""
    monkeypatch.setattr(
        "hookline.plugin_loading.logits_processors.installed", lambda _: ()
    )


@pytest.mark.slow
@pytest.mark.usefixtures("_left_out")
def test_requests_that_need_one_are_refused() -> None:
    """With its name and the distribution to install; others are served."""
    needing = {
        "penalties": SamplingParams(frequency_penalty=1.0),
        "logit_bias": SamplingParams(logit_bias={1: 2.0}),
        "allowed_token_ids": SamplingParams(allowed_token_ids=(1, 2)),
        "min_tokens": SamplingParams(min_tokens=3, max_tokens=4),
        "bad_words": SamplingParams(bad_words=("def",)),
    }
    with LLM.from_config(CONFIG) as llm:
        for name, params in needing.items():
            with pytest.raises(RequestError, match="hookline-processors") as error:
                llm.generate(["def"], params)
            assert error.value.param == name
        outputs = llm.generate(["def"], SamplingParams(max_tokens=2, temperature=0.0))

    assert len(outputs[0].outputs[0].token_ids) == 2


def test_a_usual_processor_is_not_chosen() -> None:
    """It would apply twice."""
    with pytest.raises(ConfigError, match="'bad_words' is always used"):
        LLM.from_config(replace(CONFIG, logits_processors=("bad_words",)))
