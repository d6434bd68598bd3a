"""Greedy output equals that of `transformers`, whichever engine ran the prompt."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hookline.config import CacheConfig, Dtype, EngineConfig, ModelConfig
from hookline_faults.p2p_transport import PREFILL, Wire, prefilled
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.driven_engine import DrivenEngine, rest, turn_until
from hookline_testing.essential import essential
from hookline_testing.oracle import make_oracle

MakeEngine = Callable[..., tuple[DrivenEngine, Wire]]

PROMPT = [(7 * index) % 300 for index in range(45)]
OUTPUT_TOKENS = 8
MODES = ("pull", "push")
FAMILIES = ("llama", "mistral", "gemma2")


def config_for(folder: Path, dtype: Dtype) -> EngineConfig:
    return EngineConfig(
        model=ModelConfig(model=str(folder), max_model_len=96, dtype=dtype),
        cache=CacheConfig(block_size=4, num_kv_blocks=64),
    )


def passed_on(
    make_engine: MakeEngine, config: EngineConfig, mode: str
) -> tuple[list[int], DrivenEngine]:
    """The consumer's tokens, and the producer at rest."""
    (producer, _), (consumer, taking) = (
        make_engine(config, mode=mode),
        make_engine(config, mode=mode),
    )
    assert taking.address is not None
    to = {"remote_host": taking.address.host, "remote_port": taking.address.port}
    params = prefilled(producer, PROMPT, PREFILL | (to if mode == "push" else {}))
    if mode == "push":
        rest([producer])

    request = consumer.add(PROMPT, OUTPUT_TOKENS, params)
    turn_until([producer, consumer], lambda: request in consumer.ended)

    _, stats = rest([producer, consumer])
    assert transfers_of(stats).transferred_tokens == 44
    assert transfers_of(stats).failures == {}
    return consumer.tokens[request], producer


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", essential(FAMILIES, "gemma2", slow=FAMILIES))
def test_prompt_of_another_is_continued_rightly(
    make_engine: MakeEngine, tmp_path: Path, family: str, mode: str
) -> None:
    """Grouped heads, sliding windows, soft caps: token for token, in float32."""
    oracle = make_oracle(family, tmp_path)
    config = config_for(oracle.folder, Dtype.FLOAT32)

    tokens, _ = passed_on(make_engine, config, mode)

    assert tokens == oracle.greedy(PROMPT, OUTPUT_TOKENS)


@pytest.mark.parametrize("mode", MODES)
def test_bfloat16_is_continued_as_by_oneself(
    make_engine: MakeEngine, tmp_path: Path, mode: str
) -> None:
    """As an engine goes on that finds the prompt in its own cache."""
    oracle = make_oracle("llama", tmp_path)
    config = config_for(oracle.folder, Dtype.BFLOAT16)

    tokens, producer = passed_on(make_engine, config, mode)

    alone = producer.add(PROMPT, OUTPUT_TOKENS)
    rest([producer])
    assert producer.tokens[alone] == tokens
    assert producer.stats.totals.prefix_cache.hit_tokens == 44
