"""KV connectors whose worker's sides are in several ranks."""

import random
from pathlib import Path

import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline_kv_transfer.loading import check_ranks
from hookline_testing import assert_conserved
from hookline_testing.connectors import DictStore, DictWorker

pytestmark = pytest.mark.slow

GREEDY = SamplingParams(max_tokens=8, temperature=0.0)
BYTES = "hookline_kv_transfer_bytes"


def prompts() -> list[list[int]]:
    """More than the KV cache holds."""
    source = random.Random(0)  # noqa: S311 - the same each time
    return [[source.randrange(5, 900) for _ in range(100)] for _ in range(4)]


def engine(size: int, connector: dict[str, object]) -> LLM:
    config = EngineConfig.from_options(
        model="demo",
        dtype="float32",
        max_model_len=128,
        num_kv_blocks=18,
        tensor_parallel_size=size,
        threads=1,
        kv_transfer_config=connector,
    )
    return LLM.from_config(config)


def served(size: int, connector: dict[str, object]) -> tuple[object, object]:
    """The tokens of two rounds, and the bytes that were moved."""
    with engine(size, connector) as llm:
        found = [
            llm.generate([prompt], GREEDY, use_tqdm=False)[0].outputs[0].token_ids
            for prompt in (*prompts(), *prompts())
        ]
        [moved] = [each for each in llm.get_metrics() if each.name == BYTES]
        assert_conserved(llm)
    return found, [(each.labels, each.value) for each in moved.samples]


@pytest.mark.exhaustive
def test_ranks_move_the_blocks_of_their_own_heads() -> None:
    """Together as many bytes as one rank, and the tokens are the same."""
    connector: dict[str, object] = {
        "kv_connector": "cpu_offload",
        "kv_connector_extra_config": {"cpu_bytes_to_use": 1 << 26},
    }

    alone, ranks = (served(size, connector) for size in (1, 2))

    assert ranks == alone


@pytest.mark.exhaustive
def test_ranks_store_their_parts_apart(tmp_path: Path) -> None:
    """A second engine loads what the first has stored."""
    connector: dict[str, object] = {
        "kv_connector": "shared_storage",
        "kv_connector_extra_config": {"shared_storage_path": str(tmp_path)},
    }

    first, second = (served(2, connector)[0] for _ in range(2))

    assert second == first
    assert len(list(tmp_path.iterdir())) == 2


def test_connectors_that_know_no_ranks_are_refused() -> None:
    """The error names the connector."""
    config = EngineConfig.from_options(
        kv_transfer_config={"kv_connector": "dict"}, pipeline_parallel_size=2
    )

    with pytest.raises(ConfigError, match="'dict' does not work with several ranks"):
        check_ranks(config, "dict", DictWorker(DictStore()).capabilities)
