"""Two ranks compute what one computes, whatever requests ask for."""

import os
from collections.abc import Iterator, Mapping

import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig
from hookline.structured_outputs import StructuredOutputsParams
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.rank_pids import rank_pids

pytestmark = pytest.mark.slow

TEXTS = ["def add(a, b):\n", "class Stack:\n    def push(self", "import os\n\n"]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
GREEDY = SamplingParams(max_tokens=24, temperature=0.0)
PARAMS: Mapping[str, SamplingParams] = {
    "greedy": GREEDY,
    "seeded": SamplingParams(max_tokens=24, temperature=0.8, top_p=0.9, seed=5, n=2),
    "penalties": SamplingParams(
        max_tokens=24, temperature=0.0, repetition_penalty=1.2, logit_bias={268: 2.0}
    ),
    "grammar": SamplingParams(
        max_tokens=40,
        temperature=0.0,
        structured_outputs=StructuredOutputsParams(json=SCHEMA),
    ),
}
OPTIONS: Mapping[str, dict[str, object]] = {
    "plain": {},
    "drafts": {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
    "chunks": {"max_num_batched_tokens": 16, "max_num_seqs": 16},
    "async": {"async_scheduling": True},
    "torch": {"kernels": "torch"},
}


def engine(size: int, **options: object) -> LLM:
    config = EngineConfig.from_options(
        model="demo",
        dtype="float32",
        num_kv_blocks=256,
        tensor_parallel_size=size,
        **options,
    )
    return LLM.from_config(config)


def texts(llm: LLM, params: SamplingParams) -> list[list[str]]:
    found = llm.generate(TEXTS, params)
    return [[one.text for one in each.outputs] for each in found]


def total(llm: LLM, what: str) -> float:
    """Seconds that ranks have spent on exchanges, or waiting for plans."""
    name = f"hookline_rank_{what}_seconds"
    [family] = [each for each in llm.get_metrics() if each.name == name]
    [sample] = family.samples
    assert isinstance(sample.value, float | int)
    return sample.value


@pytest.fixture(scope="module", params=essential(OPTIONS, "plain"))
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[LLM, LLM]]:
    """An engine with two ranks, and one without, with the same options."""
    options = OPTIONS[request.param]
    with engine(2, **options) as ranks, engine(1, **options) as alone:
        yield ranks, alone


@pytest.mark.parametrize("kind", PARAMS)
def test_two_ranks_say_what_one_says(pair: tuple[LLM, LLM], kind: str) -> None:
    """Token for token, in float32."""
    ranks, alone = pair

    assert texts(ranks, PARAMS[kind]) == texts(alone, PARAMS[kind])

    assert_conserved(ranks)
    assert rank_pids(os.getpid()) == list(ranks.front_end.facts.rank_pids)
    assert total(ranks, "exchange") > 0
    assert total(ranks, "handover") > 0
    assert total(alone, "exchange") == total(alone, "handover") == 0


@pytest.mark.exhaustive
def test_ranks_sleep_and_wake_up(pair: tuple[LLM, LLM]) -> None:
    """All of them release and load their parts."""
    ranks, alone = pair

    for level in (1, 2):
        ranks.sleep(level)
        ranks.wake_up()

        assert texts(ranks, GREEDY) == texts(alone, GREEDY)
