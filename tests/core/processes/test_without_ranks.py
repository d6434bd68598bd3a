"""Without the distribution hookline-ranks a model has one rank."""

import pytest

from hookline import LLM, SamplingParams
from hookline.exceptions import ConfigError
from hookline_testing.oracle import Oracle


@pytest.fixture(autouse=True)
def no_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKLINE_PLUGINS", "no:hookline-ranks")


def test_one_rank_generates(llama: Oracle) -> None:
    """The worker's context is that of a single rank."""
    params = SamplingParams(max_tokens=3, ignore_eos=True)

    with LLM(str(llama.folder), in_process=True, kernels="torch") as llm:
        outputs = llm.generate([[5, 6]], params, use_tqdm=False)

    assert outputs[0].outputs[0].output_tokens == 3


@pytest.mark.parametrize(
    "options",
    [
        {"tensor_parallel_size": 2},
        {"pipeline_parallel_size": 2},
        {"executor": "mp"},
    ],
    ids=str,
)
def test_several_ranks_are_refused(options: dict[str, object]) -> None:
    """The error names the distribution, and the options that need it."""
    with pytest.raises(ConfigError, match=r"tensor-par.*hookline-ranks, which is not"):
        LLM("demo", in_process=True, **options)  # type: ignore[arg-type]
