"""Embedding requests above a simulated model: counted, and never sampled for."""

import json
from pathlib import Path

import pytest

from hookline import LLM, ConfigError, ModelLoadError, PoolingParams, RequestError
from hookline.config import Convert, EngineConfig, ModelConfig, Runner
from hookline_metrics import Family
from hookline_pooling.config import PoolerConfig
from hookline_pooling.sentence import pooling_facts
from hookline_testing.conservation import assert_conserved


def engine(**options: object) -> LLM:
    given = {"executor": "simulated", "convert": "embed", "max_model_len": 96}
    config = EngineConfig.from_options(**{**given, "block_size": 4, **options})
    return LLM.from_config(config)


def totals(families: tuple[Family, ...], name: str) -> dict[str, float]:
    """Values of a family by its last label."""
    [family] = [each for each in families if each.name == name]
    return {each.labels[-1]: float(each.value) for each in family.samples}  # type: ignore[arg-type]


def test_a_prompt_that_fills_the_context_is_embedded_in_chunks() -> None:
    """It needs no room for a token; beside it others generate, and nothing is lost."""
    with engine(max_num_batched_tokens=8, max_num_seqs=4, num_kv_blocks=30) as llm:
        found = llm.embed([[5] * 96, [6] * 50, [5] * 96], use_tqdm=False)
        texts = llm.generate([[7] * 3], use_tqdm=False)
        with pytest.raises(RequestError, match="maximum context length"):
            llm.embed([5] * 97, use_tqdm=False)

        assert_conserved(llm)

    assert [each.outputs.data.shape for each in found] == [(1, 256)] * 3
    assert found[0].outputs.embedding == found[2].outputs.embedding
    assert found[0].outputs.embedding != found[1].outputs.embedding
    assert len(texts[0].outputs[0].token_ids) == 16


def test_prompt_tokens_are_counted_and_first_tokens_are_not() -> None:
    """The requests end by `stop`; what has no token is in no histogram of tokens."""
    with engine() as llm:
        first = llm.embed([5] * 9, use_tqdm=False)[0]
        again = llm.embed([5] * 9, use_tqdm=False)[0]
        families = llm.get_metrics()

    assert (first.cached_tokens, again.cached_tokens) == (0, 8)
    assert totals(families, "hookline_requests_finished")["stop"] == 2
    sources = totals(families, "hookline_prompt_tokens")
    assert (sources["computed"], sources["local_cache"]) == (10, 8)
    by_request = totals(families, "hookline_request_group_prompt_tokens")
    assert (by_request["computed"], by_request["local_cache"]) == (10, 8)
    [generated] = totals(families, "hookline_generation_tokens").values()
    assert generated == 0
    metrics = first.metrics
    assert metrics is not None
    assert metrics.ttft_seconds is metrics.tpot_seconds is None
    assert metrics.prefill_seconds is not None


@pytest.mark.parametrize("kind", ["MEAN", "CLS"])
def test_poolings_of_all_positions_read_no_cached_prefix(kind: str) -> None:
    """They leave one for others, though."""
    with engine(pooler_config={"pooling_type": kind}) as llm:
        found = [llm.embed([5] * 9, use_tqdm=False)[0].cached_tokens for _ in range(2)]
        [text] = llm.generate([[5] * 9], use_tqdm=False)

    assert found == [0, 0]
    assert text.cached_tokens == 8


def test_an_engine_refuses_what_it_does_not_do() -> None:
    """The error names the option."""
    with (
        engine(convert="none") as llm,
        pytest.raises(RequestError, match="--convert embed"),
    ):
        llm.embed("a", use_tqdm=False)
    with engine(convert="auto", runner="pooling") as llm:
        with pytest.raises(RequestError, match="only embeds"):
            llm.generate("a", use_tqdm=False)
        with pytest.raises(RequestError, match="dimensions"):
            llm.embed("a", PoolingParams(dimensions=8), use_tqdm=False)


def sentence_model(
    folder: Path, *, mode: str = "pooling_mode_lasttoken", more: str = "Normalize"
) -> str:
    (folder / "1_Pooling").mkdir()
    files: dict[str, object] = {
        "config.json": {"hidden_size": 8, "matryoshka_dimensions": [2, 4]},
        "modules.json": [
            {"type": f"sentence_transformers.models.{name}"}
            for name in ("Transformer", "Pooling", more)
        ],
        "1_Pooling/config.json": {mode: True, "pooling_mode_max_tokens": False},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return str(folder)


def test_a_sentence_model_sets_its_pooling(tmp_path: Path) -> None:
    """Its files are the defaults, which options override."""
    folder = sentence_model(tmp_path)

    found = pooling_facts(EngineConfig(model=ModelConfig(model=folder)))
    both = pooling_facts(
        EngineConfig(model=ModelConfig(model=folder, convert=Convert.EMBED)),
        {"pooling_type": "MEAN", "normalize": False},
    )
    alone = ModelConfig(model=folder, runner=Runner.GENERATE)

    assert found is not None
    assert both is not None
    assert (found.kind, found.normalize, found.is_alone) == ("LAST", True, True)
    assert (found.hidden_size, found.matryoshka_dimensions) == (8, (2, 4))
    assert (both.kind, both.normalize, both.is_alone) == ("MEAN", False, False)
    assert pooling_facts(EngineConfig(model=alone)) is None


@pytest.mark.parametrize(
    "options", [{"mode": "pooling_mode_max_tokens"}, {"more": "Dense"}], ids=str
)
def test_what_a_sentence_model_needs_and_is_not_there_is_refused(
    tmp_path: Path, options: dict[str, str]
) -> None:
    """Vectors would be wrong without it."""
    folder = sentence_model(tmp_path, **options)
    if "mode" in options:
        (tmp_path / "1_Pooling/config.json").write_text(
            '{"pooling_mode_max_tokens": true}'
        )

    with pytest.raises(ModelLoadError, match=r"supported"):
        pooling_facts(EngineConfig(model=ModelConfig(model=folder)))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pooling_type": "ALL"}, "token_embed"),
        ({"pooling_type": "MAX"}, "must be one of"),
        ({"pooling_typ": "LAST"}, "unknown key"),
        ({"normalize": 1}, "true or false"),
        ({"dimensions": 0}, "at least 1"),
        ({"pooling_type": "LAST", "seq_pooling_type": "CLS"}, "give one"),
    ],
    ids=str,
)
def test_a_wrong_pooler_config_is_named(given: dict[str, object], words: str) -> None:
    """The error says what is wrong."""
    with pytest.raises(ConfigError, match=words):
        PoolerConfig.from_mapping(given)


@pytest.mark.parametrize(
    "model",
    [
        ModelConfig(),
        ModelConfig(convert=Convert.NONE),
        ModelConfig(runner=Runner.POOLING, convert=Convert.NONE),
    ],
    ids=str,
)
def test_options_without_effect_are_refused(model: ModelConfig) -> None:
    """A pooler for an engine that does not embed is a mistake."""
    with pytest.raises(ConfigError):
        pooling_facts(EngineConfig(model=model, pooler={}))
