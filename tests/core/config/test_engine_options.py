"""Engine options as flat keywords: `EngineConfig.from_options`."""

from dataclasses import dataclass

import pytest

from hookline.config import (
    DetailedTrace,
    Dtype,
    EngineConfig,
    Policy,
)
from hookline.config.options import build, check_options, option, options_of
from hookline.exceptions import ConfigError
from hookline.request import Slo
from hookline_kv_transfer.config import KVTransferConfig
from hookline_simulated.config import SimulationConfig


def test_no_keyword_means_the_defaults() -> None:
    """
    Without keywords the configuration is its own default.
    """
    assert EngineConfig.from_options() == EngineConfig()


def test_keywords_reach_their_sections() -> None:
    """
    Keywords named after the flags end in their sections, with their types.
    """
    made = EngineConfig.from_options(
        model="m",
        dtype="float16",
        max_model_len=99,
        kv_cache_memory="2GiB",
        scheduling_policy="priority",
        simulated_step_seconds=1,
        stat_logger="logging",
        stat_logger_option={"logging": {"interval": "9"}},
        slo="ttft=1",
        collect_detailed_traces=["model"],
        trace_ratio=0.5,
        in_process=False,
    )

    assert (made.model.model, made.model.dtype) == ("m", Dtype.FLOAT16)
    assert made.model.max_model_len == 99
    assert made.cache.kv_cache_memory == 2 * 2**30
    assert made.scheduler.policy is Policy.PRIORITY
    assert SimulationConfig.of(made).step_seconds == 1.0
    assert made.observers.stat_loggers == ("logging",)
    assert made.observers.options == {"logging": {"interval": "9"}}
    assert made.observers.slo == Slo(ttft=1.0)
    assert made.observers.detailed_traces == (DetailedTrace.MODEL,)
    assert made.observers.trace_ratio == 0.5
    assert not made.in_process


def test_json_options_take_mappings_dataclasses_and_json() -> None:
    """
    Nested options are the same as a mapping, as a dataclass, and as JSON.
    """
    by_mapping = EngineConfig.from_options(
        speculative_config={"method": "ngram", "num_speculative_tokens": 3, "x": 1},
        kv_transfer_config={"kv_connector": "c", "kv_role": "kv_producer"},
    )
    by_dataclass = EngineConfig.from_options(
        speculative_config={"method": "ngram", "num_speculative_tokens": 3, "x": 1},
        kv_transfer_config=KVTransferConfig.from_mapping(
            {"kv_connector": "c", "kv_role": "kv_producer"}
        ),
    )
    by_text = EngineConfig.from_options(
        speculative_config='{"method": "ngram", "num_speculative_tokens": 3, "x": 1}',
        kv_transfer_config='{"kv_connector": "c", "kv_role": "kv_producer"}',
    )

    assert by_mapping == by_dataclass == by_text
    assert by_mapping.speculative is not None


@pytest.mark.parametrize(
    ("keywords", "sample"),
    [
        ({"kv_cache_metrics": True}, 0.01),
        ({"kv_cache_metrics": False}, 0.0),
        ({"kv_cache_metrics": True, "kv_cache_metrics_sample": 0.5}, 0.5),
    ],
)
def test_shorthand_sets_its_option(keywords: dict[str, object], sample: float) -> None:
    """
    A switch sets the option that it stands for, unless that is set itself.
    """
    made = EngineConfig.from_options(**keywords)

    assert made.cache.residency_sample == sample


@pytest.mark.parametrize(
    ("keywords", "complaint"),
    [
        ({"max_num_seq": 1}, "max_num_seq: unknown option; did you mean max_num_seqs?"),
        ({"zzz": 1}, "zzz: unknown option"),
        ({"dtype": "flot"}, "dtype: must be one of auto, bfloat16, float16, float32"),
        ({"max_num_seqs": "3"}, "max-num-seqs: must be a whole number, not '3'"),
        ({"max_num_seqs": True}, "max-num-seqs: must be a whole number, not True"),
        ({"max_num_seqs": 0}, "max-num-seqs: must be at least 1, not 0"),
        ({"enable_prefix_caching": 1}, "must be true or false, not 1"),
        ({"gpu_memory_utilization": 2}, "must be above 0 and at most 1, not 2"),
        ({"heartbeat_seconds": float("inf")}, "must be above 0 and finite"),
        ({"heartbeat_seconds": float("nan")}, "must be above 0, not nan"),
        ({"trace_ratio": 2}, "trace-ratio: must be 0 to 1"),
        ({"stat_logger": 3}, "stat-logger: must be a list"),
        (
            {"collect_detailed_traces": ["x"]},
            "must be a list of model, worker, all, none",
        ),
        ({"slo": "x"}, "slo: 'x' is not NAME=SECONDS"),
        ({"kv_cache_memory": "2 potatoes"}, "kv-cache-memory: '2 potatoes' is not a"),
        ({"num_kv_blocks": 1, "kv_cache_memory": 1}, "not both"),
    ],
)
def test_wrong_keyword_is_a_clear_error(
    keywords: dict[str, object], complaint: str
) -> None:
    """
    A wrong keyword or value raises a `ConfigError` that names the option.
    """
    with pytest.raises(ConfigError) as raised:
        EngineConfig.from_options(**keywords)

    assert complaint in str(raised.value)


def test_flags_are_unique() -> None:
    """
    No two options of the engine have the same flag.
    """
    options = options_of(EngineConfig)
    flags = [each.flag for each in options]
    flags += [each.spec.shorthand.flag for each in options if each.spec.shorthand]

    assert len(set(flags)) == len(flags)


@dataclass(frozen=True, kw_only=True)
class Sail:
    area: int = option("Area in square metres.", minimum=1)
    crew: int | None = option("Crew.", default=None, maximum=9)
    note: str = ""

    def __post_init__(self) -> None:
        check_options(self)


def test_field_without_default_is_required() -> None:
    """
    An option whose field has no default must be set.
    """
    with pytest.raises(ConfigError, match="area: is required"):
        build(Sail, {})


def test_field_without_metadata_is_not_an_option() -> None:
    """
    Only fields that are described can be set.
    """
    with pytest.raises(ConfigError, match="note: unknown option"):
        build(Sail, {"area": 2, "note": "x"})


def test_ranges_hold_however_an_object_is_made() -> None:
    """
    `check_options` checks bounds of values, but not None.
    """
    assert Sail(area=2).crew is None
    with pytest.raises(ConfigError, match="crew: must be at most 9, not 10"):
        Sail(area=2, crew=10)
    with pytest.raises(ConfigError, match="area: must be at least 1, not 0"):
        Sail(area=0)
