"""Several engines in their own processes, behind one front end."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from hookline import LLM, SamplingParams, StructuredOutputsParams
from hookline.config import CacheConfig, EngineConfig, KVCacheDtype, ModelConfig
from hookline.exceptions import ConfigError
from hookline.outputs import RequestOutput
from hookline_cluster.config import ClusterConfig
from hookline_kv_transfer.config import KVTransferConfig
from hookline_process_engine.capabilities import EngineProcesses
from hookline_server.engine_number import MOST_ENGINES
from hookline_testing import assert_conserved
from hookline_testing.oracle import VOCAB, Oracle

OUTPUT_TOKENS = 24
GREEDY = SamplingParams(temperature=0.0, max_tokens=OUTPUT_TOKENS)


def prompts() -> list[list[int]]:
    """Ten prompts of 1 to 60 tokens, some with a common beginning."""
    source = random.Random(3)  # noqa: S311 - a test
    common = [source.randrange(VOCAB) for _ in range(40)]
    lengths = (1, 2, 15, 16, 17, 33, 60)
    alone = [[source.randrange(VOCAB) for _ in range(length)] for length in lengths]
    return [*alone, *([*common, tail] for tail in (5, 6, 7))]


def config(llama: Oracle) -> EngineConfig:
    return EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=256),
        sections={"cluster": ClusterConfig(data_parallel_size=2)},
        in_process=False,
    )


def shares(llm: LLM) -> list[int]:
    """Number of requests that each engine has finished; the books balance."""
    assert_conserved(llm)
    return [sum(each.stats.totals.finished.values()) for each in llm.front_end.engines]


def tokens(outputs: list[RequestOutput]) -> list[list[int]]:
    return [list(each.outputs[0].token_ids) for each in outputs]


@pytest.mark.slow
def test_two_engines_give_the_tokens_of_the_oracle(llama: Oracle) -> None:
    """Greedy output is `transformers`' own, whichever engine computes it."""
    with LLM.from_config(config(llama)) as llm:
        outputs = llm.generate(prompts(), GREEDY, use_tqdm=False)
        hashes = {each.facts.config_hash for each in llm.front_end.engines}
        finished = shares(llm)

    assert tokens(outputs) == [llama.greedy(each, OUTPUT_TOKENS) for each in prompts()]
    assert finished == [5, 5]
    assert len(hashes) == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("feature", ["speculation", "connector", "8-bit cache"])
def test_features_work_on_both_engines(
    llama: Oracle, tmp_path: Path, feature: str
) -> None:
    """Output is what one engine gives with the same feature."""
    transfer = KVTransferConfig(
        kv_connector="shared_storage",
        kv_connector_extra_config={"shared_storage_path": str(tmp_path)},
    )
    ngram = {"method": "ngram", "num_speculative_tokens": 3}
    base = config(llama)
    eight_bits = replace(base.cache, kv_cache_dtype=KVCacheDtype.INT8)
    both = {
        "speculation": replace(base, speculative=ngram),
        "connector": replace(base, kv_transfer=transfer.section()),
        "8-bit cache": replace(base, cache=eight_bits),
    }[feature]
    with LLM.from_config(replace(both, sections={})) as one:
        expected = tokens(one.generate(prompts(), GREEDY, use_tqdm=False))
    with LLM.from_config(both) as llm:
        outputs = llm.generate(prompts(), GREEDY, use_tqdm=False)
        external = sum(each.cached_tokens for each in outputs)
        finished = shares(llm)

    assert tokens(outputs) == expected
    assert finished == [5, 5]
    if feature == "connector":  # what the first engine stored
        assert external >= 60


@pytest.mark.exhaustive
def test_structured_outputs_work_on_both_engines(llama: Oracle) -> None:
    """Each engine has its own grammars."""
    choices = StructuredOutputsParams(choice=("yes", "no"))
    params = SamplingParams(
        max_tokens=8, structured_outputs=choices, stop_token_ids=(0,)
    )
    with LLM.from_config(config(llama)) as llm:
        outputs = llm.generate(prompts()[:6], params, use_tqdm=False)
        finished = shares(llm)

    assert {each.outputs[0].text for each in outputs} <= {"yes", "no"}
    assert finished == [3, 3]


@pytest.mark.slow
def test_engines_in_this_process_take_turns() -> None:
    """`in_process` is the user's choice; without it engines have their processes."""
    with LLM(executor="simulated", data_parallel_size=3, in_process=True) as llm:
        client = llm.front_end.engines.client
        assert client.capability(EngineProcesses) is None
        llm.generate([[5]] * 6, GREEDY, use_tqdm=False)
        assert shares(llm) == [2, 2, 2]
    with LLM(executor="simulated", data_parallel_size=3) as llm:
        client = llm.front_end.engines.client
        assert client.capability(EngineProcesses) is not None


@pytest.mark.parametrize("size", [0, MOST_ENGINES + 1])
def test_the_number_of_engines_has_bounds(size: int) -> None:
    """The error names the option."""
    with pytest.raises(ConfigError, match="data-parallel-size: must be 1 to 64"):
        EngineConfig.from_options(data_parallel_size=size)


def test_each_engine_records_to_its_own_file(tmp_path: Path) -> None:
    """The first to the file that was named, the second to one beside it."""
    file = tmp_path / "commands"
    with LLM(
        executor="simulated", data_parallel_size=2, in_process=True, record=str(file)
    ) as llm:
        llm.generate([[5]] * 2, GREEDY, use_tqdm=False)

    assert {each.name for each in tmp_path.iterdir()} == {"commands", "commands_dp1"}
