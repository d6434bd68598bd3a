"""Options of Hookline's own engine are refused, and vLLM's are vLLM's to read."""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hookline.config import EngineConfig
from hookline.exceptions import ConfigError, ModelLoadError
from hookline.tells import Tells
from hookline_server.adapters import adapters_of
from hookline_vllm_engine.adapters import Adapter, load, split
from hookline_vllm_engine.arguments import refuse_own_options, vllm_config
from hookline_vllm_engine.binding import bind
from hookline_vllm_engine.embedding import pooling_facts
from hookline_vllm_engine.starting import facts_of

from .fake_engine_core import BINDING, EngineCore


@dataclass
class EngineArgs:
    """Arguments of vLLM, with those that Hookline sets or refuses."""

    max_model_len: int | None = None
    data_parallel_size: int = 1
    enable_lora: bool = False
    kv_transfer_config: object = None
    model: str = ""
    served_model_name: list[str] | None = None
    tokenizer: str | None = None

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        parser.add_argument("--max-model-len", type=int)
        parser.add_argument("--data-parallel-size", type=int, default=1)
        parser.add_argument("--enable-lora", action="store_true")
        parser.add_argument("--kv-transfer-config")
        parser.add_argument("--model", default="no/model")
        parser.add_argument("--served-model-name", nargs="+")
        parser.add_argument("--tokenizer")
        return parser

    @classmethod
    def from_cli_args(cls, given: argparse.Namespace) -> "EngineArgs":
        return cls(**vars(given))

    def create_engine_config(self) -> "EngineArgs":
        if self.max_model_len == 1:
            raise ValueError("too short\nfor vLLM")
        return self


VLLM = replace(
    BINDING, AsyncEngineArgs=EngineArgs, FlexibleArgumentParser=argparse.ArgumentParser
)


def config(**options: object) -> EngineConfig:
    return EngineConfig.from_options(engine="vllm", **options)


def test_arguments_reach_vllm_with_the_model() -> None:
    """The model is a folder, or an installed one, under its name in the API."""
    made = vllm_config(config(engine_argument=["--max-model-len", "64"]), VLLM)

    assert (made.max_model_len, made.served_model_name) == (64, ["demo"])
    assert Path(made.model, "config.json").is_file()
    assert made.tokenizer is None


def test_adapters_are_read_as_vllm_serve_reads_them(tmp_path: Path) -> None:
    """By name and folder, or in JSON; the rest is left to vLLM's engine."""
    written = json.dumps({"name": "b", "path": str(tmp_path), "base_model_name": "m"})
    others, found = split(["-x", "--lora-modules", f"a={tmp_path}", written, "--y=1"])

    assert others == ["-x", "--y=1"]
    assert found == [Adapter("a", str(tmp_path)), Adapter("b", str(tmp_path), "m")]


def test_adapters_are_loaded_before_the_engine_is_ready() -> None:
    """Each with a number of its own; one that vLLM refuses is the operator's error."""
    core = EngineCore()

    made = load(core, [Adapter("a", "/a"), Adapter("b", "/b")], BINDING)
    with pytest.raises(ModelLoadError, match=r"adapter wrong: .*above --max-lora-rank"):
        load(core, [Adapter("wrong", "/c")], BINDING)

    assert core.done == ["a", "b"]
    assert [(each.lora_int_id, each.lora_path) for each in made.values()] == [
        (1, "/a"),
        (2, "/b"),
    ]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--port", "1"], "vLLM: unrecognized arguments: --port 1"),
        (["--max-model-len", "x"], "vLLM: argument --max-model-len: invalid int"),
        (["--data-parallel-size", "2"], "--data-parallel-size after `--` is not"),
        (["--lora-modules", "a=."], "--lora-modules after `--` needs --enable-lora"),
        (["--lora-modules", "a=/no/such"], "--lora-modules: no folder /no/such"),
        (["--lora-modules", "a"], "--lora-modules: 'a' is neither NAME=FOLDER nor"),
        (["--lora-modules", '{"name": 1}'], '--lora-modules: {"name": 1}: Expected'),
        (["--lora-modules", "a=.", "a=."], "--lora-modules: 'a' is there twice"),
        (["--lora-modules"], "argument --lora-modules: expected at least one"),
        (
            ["--enable-lora", "--lora-modules", "demo=."],
            "--lora-modules: the model itself has this name",
        ),
    ],
)
def test_wrong_arguments_are_told(arguments: list[str], reason: str) -> None:
    """In one line, without the usage of a parser."""
    with pytest.raises(ConfigError) as error:
        vllm_config(config(engine_argument=arguments), VLLM)

    assert error.value.option == "engine-argument"
    assert error.value.detail.startswith(reason)


def test_what_vllm_refuses_is_the_models_error() -> None:
    """Its first line says why."""
    with pytest.raises(ModelLoadError, match=r"vLLM: too short$"):
        vllm_config(config(engine_argument=["--max-model-len", "1"]), VLLM)


@pytest.mark.parametrize(
    "options",
    [
        {"max_model_len": 64},
        {"num_kv_blocks": 64},
        {"max_num_seqs": 4},
        {"speculative_config": {"method": "ngram"}},
        {"engine_option": {"a": "b"}},
    ],
    ids=str,
)
def test_options_that_would_do_nothing_are_refused(options: dict[str, Any]) -> None:
    """By their names: vLLM has its own."""
    with pytest.raises(ConfigError, match="is not for the engine vllm") as error:
        refuse_own_options(config(**options))

    assert error.value.option == next(iter(options)).replace("_", "-")


def test_what_the_front_end_reads_is_kept() -> None:
    """The name in the API, the tokenizer, and the bounds of the queue."""
    refuse_own_options(
        config(
            served_model_name="m",
            tokenizer="/t",
            tokenizer_mode="hf",
            chat_template="{{ a }}",
            hf_overrides={"rope_theta": 5},
            max_num_queued_reqs=5,
        )
    )


def test_without_vllm_the_error_says_so() -> None:
    """It is not among the distribution's dependencies."""
    with pytest.raises(ConfigError, match=r"vllm needs vllm\.engine\.arg_utils"):
        bind()


def test_facts_have_what_requests_depend_on() -> None:
    """What ends a text, the tokenizer's first; sampling; nothing that is not told."""
    from hookline_testing.fake_vllm import vllm_config as fake  # noqa: PLC0415

    settings, tokenizer = fake(), argparse.Namespace(eos_token_id=2)
    settings.model_config.max_logprobs = -1
    settings.model_config.try_get_generation_config = lambda: {"eos_token_id": [9, 2]}
    sampled = {"temperature": 0.6, "top_k": 0, "max_tokens": 9}
    settings.model_config.get_diff_sampling_param = lambda: sampled
    settings.model_config.override_generation_config = {"max_new_tokens": 9}
    settings.model_config.generation_config = "auto"
    settings.speculative_config = None
    settings.structured_outputs_config = argparse.Namespace(backend="auto")
    settings.model_config.runner_type = "generate"

    facts = facts_of(settings, 4, "0.32", tokenizer, ("a",))

    assert (facts.engine_index, facts.version) == (4, "vllm 0.32")
    assert facts.model.eos_token_ids == (2, 9)
    assert facts.model.sampling.values == {"temperature": 0.6, "max_tokens": 9}
    assert facts.model.sampling.most_tokens == 9
    assert facts.structured_outputs == "auto"
    assert Tells.PLAN in facts.tells
    assert Tells.COST not in facts.tells
    assert facts.sections["vllm"].most_logprobs == 512  # type: ignore[attr-defined]
    assert adapters_of(facts) == ("a",)


def pooling_model(**fields: object) -> argparse.Namespace:
    pooler = argparse.Namespace(
        get_seq_pooling_type=lambda: fields.pop("kind", "LAST"),
        use_activation=None,
        dimensions=None,
    )
    model = {"convert_type": "embed", "is_matryoshka": False, **fields}
    return argparse.Namespace(
        **model,
        runner_type="pooling",
        pooler_config=pooler,
        embedding_size=64,
        matryoshka_dimensions=None,
    )


def test_an_engine_that_embeds_says_how() -> None:
    """As Hookline's own does; one that classifies has no API here."""
    facts = pooling_facts(pooling_model(kind="MEAN"))

    assert facts is not None
    assert (facts.kind, facts.normalize, facts.hidden_size) == ("MEAN", True, 64)
    with pytest.raises(ConfigError, match="only has embeddings"):
        pooling_facts(pooling_model(convert_type="classify"))
