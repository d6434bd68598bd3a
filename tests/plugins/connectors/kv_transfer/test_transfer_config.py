"""What `--kv-transfer-config` takes, and how a start with it ends."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.clock import SystemClock
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    KVCacheDtype,
    ModelConfig,
)
from hookline.config.extensions import KV_TRANSFER
from hookline.engine.decoder.layer_shapes import LayerCache
from hookline.engine.worker.extension import ShownCache
from hookline.engine.worker.paged_cache import PagedCache
from hookline.engine_setup.building import build_core
from hookline.exceptions import ConfigError
from hookline.plugin_loading import extensions
from hookline_kernels.cache_numbers import dtype_name
from hookline_kv_transfer import (
    KVRole,
    KVTransferConfig,
    LoadFailurePolicy,
    SchedulerCapabilities,
)
from hookline_kv_transfer.layout import KV_LAYOUT
from hookline_kv_transfer.loading import load_scheduler_connector
from hookline_kv_transfer.worker_side import TransferWorker
from hookline_metrics.transfer_stats import transfers_of
from hookline_models.loading.fingerprint import fingerprint_of
from hookline_testing import assert_conserved
from hookline_testing.connectors import DictStore, DictWorker, Faults
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle, make_oracle
from hookline_testing.plugin_site import PluginSite

ConnectedLLM = Callable[[EngineConfig, DictStore], AbstractContextManager[LLM]]

SIMULATED = EngineConfig(
    cache=CacheConfig(block_size=4),
    executor=ExecutorConfig(name="simulated"),
    kv_transfer=KVTransferConfig(
        kv_connector="dict", kv_load_timeout_seconds=0.5
    ).section(),
)
SIDES = """
from hookline import hookimpl
from hookline.exceptions import ConfigError
from hookline.plugin_loading import extensions
from hookline_kv_transfer import SchedulerCapabilities
from hookline_testing.essential import essential

class Side:
    pass

class Mute:
    capabilities = dict(has_tiers=True)
    def register_kv_layout(self, layout): ...
    def get_num_new_matched_tokens(self, request, num_computed_tokens): ...
    def update_state_after_alloc(self, request, load): ...
    def build_connector_meta(self, step): ...
    def request_finished(self, request, block_ids, transfer_id): ...
    def shutdown(self): ...

class Tiered(Mute):
    capabilities = SchedulerCapabilities(has_tiers=True)

class Receiving(Mute):
    capabilities = SchedulerCapabilities(receives_payloads=True)

@hookimpl
def create_kv_connector(context):
    {act}
"""


def read(text: str) -> KVTransferConfig:
    """Reads the option as a command line gives it."""
    given = EngineConfig.from_options(kv_transfer_config=text).kv_transfer
    assert given is not None
    return KVTransferConfig.from_mapping(given)


def naming(connector: str) -> EngineConfig:
    return replace(
        SIMULATED, kv_transfer=KVTransferConfig(kv_connector=connector).section()
    )


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("attic", "is not JSON"),
        ("[]", "is not a JSON object"),
        ("{}", "kv_connector is missing"),
        ('{"kv_connector": ""}', "must name an installed connector"),
        ('{"kv_connector": "a", "kv_rank": 1}', "unknown key 'kv_rank'"),
        ('{"kv_connector": "a", "kv_role": "both"}', "one of kv_producer, kv_consumer"),
        ('{"kv_connector": "a", "kv_load_failure_policy": "x"}', "one of recompute"),
        ('{"kv_connector": "a", "kv_load_timeout_seconds": 0}', "must be above 0"),
        ('{"kv_connector": "a", "kv_save_timeout_seconds": "1"}', "must be a number"),
        ('{"kv_connector": "a", "kv_connector_extra_config": 1}', "must be an object"),
    ],
)
def test_mistakes_are_one_line_errors(text: str, detail: str) -> None:
    """Each error is one line that names a remedy."""
    with pytest.raises(ConfigError, match=detail) as caught:
        read(text)

    assert caught.value.option == "kv-transfer-config"


def test_all_keys_are_read() -> None:
    """With vLLM's names and values."""
    found = read(
        '{"kv_connector": "a", "kv_role": "kv_consumer", "kv_load_failure_policy": '
        '"fail", "kv_load_timeout_seconds": 2, "kv_save_timeout_seconds": 3.5, '
        '"kv_connector_extra_config": {"path": "kv"}}'
    )

    assert found == KVTransferConfig(
        kv_connector="a",
        kv_role=KVRole.CONSUMER,
        kv_load_failure_policy=LoadFailurePolicy.FAIL,
        kv_load_timeout_seconds=2,
        kv_save_timeout_seconds=3.5,
        kv_connector_extra_config={"path": "kv"},
    )


def test_prefix_caching_is_needed() -> None:
    """Without it blocks have no hashes."""
    with pytest.raises(ConfigError, match="requires enable-prefix-caching"):
        build_core(
            replace(SIMULATED, cache=CacheConfig(enable_prefix_caching=False)),
            SystemClock(),
        )


@pytest.mark.parametrize(
    ("act", "detail"),
    [
        ("return None", "provides no scheduler's side: its factory returned None"),
        ("return Tiered", "returned the class Tiered, not an instance"),
        (
            "return Side()",
            "it has no build_connector_meta",
        ),
        ("return Mute()", "its capabilities are .*, not SchedulerCapabilities"),
        ("return Tiered()", "provides no scheduler's side: it has no tier_stats"),
        ("return Receiving()", "side: it has no update_connector_output"),
        ("raise ConfigError('kv-transfer-config', 'no such path')", "no such path"),
        ("raise OSError('disk gone')", "disk gone"),
    ],
)
def test_broken_plugin_ends_the_start(tmp_path: Path, act: str, detail: str) -> None:
    """With what is wrong with it, before anything is loaded."""
    with PluginSite(tmp_path) as site:
        site.install("bad", SIDES.format(act=act), group="hookline.connectors")

        with pytest.raises(ConfigError, match=detail):
            LLM.from_config(naming("bad"))


def test_a_connector_may_still_declare_nothing(tmp_path: Path) -> None:
    """For one more release its methods tell what it takes, with a warning."""
    source = SIDES.format(act="return Former()").replace(
        "class Tiered(Mute)",
        "class Former(Mute):\n    def tier_stats(self): ...\n\n"
        "del Mute.capabilities\n\nclass Tiered(Mute)",
    )
    config = naming("former")
    with PluginSite(tmp_path) as site:
        site.install("former", source, group="hookline.connectors")
        transfer = KVTransferConfig.from_mapping(dict(config.kv_transfer or {}))

        with pytest.warns(DeprecationWarning, match="declares no `capabilities`"):
            side = load_scheduler_connector(config, transfer)

    assert side.capabilities == SchedulerCapabilities(has_tiers=True)


def test_unknown_connector_ends_the_start() -> None:
    """With those that are installed."""
    with pytest.raises(ConfigError, match="installed:"):
        LLM.from_config(naming("no"))


def test_failed_tokens_are_not_reported_as_cached(connected_llm: ConnectedLLM) -> None:
    """`cached_tokens` of a request whose load failed are those that came."""
    store, prompt = DictStore(), list(range(3, 24))
    params = SamplingParams(max_tokens=2)
    with connected_llm(SIMULATED, store) as llm:
        llm.generate([prompt], params)
    store.faults = Faults(hides=1.0)
    with connected_llm(SIMULATED, store) as llm:
        [output] = llm.generate([prompt], params)
        hits = transfers_of(llm.front_end.engines[0].stats).external_cache.hit_tokens
        assert_conserved(llm)

    assert output.cached_tokens == hits < 20


def test_waiting_for_loads_does_not_spin(connected_llm: ConnectedLLM) -> None:
    """While everything waits for KV the engine asks now and then, and else sleeps."""
    store = DictStore(is_async=True, delay_seconds=0.4)
    prompt = list(range(3, 24))
    with connected_llm(SIMULATED, store) as llm:
        llm.generate([prompt], SamplingParams(max_tokens=1))
    with connected_llm(SIMULATED, store) as llm:
        started, used = time.monotonic(), time.thread_time()
        llm.generate([prompt], SamplingParams(max_tokens=1))
        waited, used = time.monotonic() - started, time.thread_time() - used

    assert waited > 0.4
    assert used < 0.1 * waited  # some 50 questions; a busy loop takes all of it


def test_fingerprint_is_the_models_own(tmp_path: Path, llama: Oracle) -> None:
    """The same for the same weights, elsewhere; another for one other number."""
    model = make_oracle("llama", tmp_path).model
    same = fingerprint_of(llama.model)

    assert fingerprint_of(model) == same
    with torch.no_grad():
        next(model.parameters())[3, 5] += 1e-3
    assert fingerprint_of(model) != same
    model.config.rope_parameters["rope_theta"] = 5.0
    assert fingerprint_of(model) != same


@pytest.mark.parametrize(
    "cache_dtype",
    essential([KVCacheDtype.AUTO, KVCacheDtype.INT8], KVCacheDtype.INT8),
)
def test_blocks_are_brought_bit_by_bit(
    connected_llm: ConnectedLLM, llama: Oracle, cache_dtype: KVCacheDtype
) -> None:
    """Texts are those of an engine that finds the same in its own cache."""
    config = replace(
        SIMULATED,
        model=ModelConfig(model=str(llama.folder), dtype="bfloat16"),  # type: ignore[arg-type]
        cache=replace(SIMULATED.cache, kv_cache_dtype=cache_dtype),
        executor=ExecutorConfig(),
    )
    greedy = SamplingParams(temperature=0.0, max_tokens=16)
    prompts = [list(range(3, 40)), list(range(50, 77))]
    with LLM.from_config(replace(config, kv_transfer=None)) as llm:
        llm.generate(prompts, greedy)
        plain = llm.generate(prompts, greedy)
    store = DictStore()
    with connected_llm(config, store) as llm:
        llm.generate(prompts, greedy)
    with connected_llm(config, store) as llm:
        loading = llm.generate(prompts, greedy)

    assert [each.outputs for each in loading] == [each.outputs for each in plain]
    assert [each.cached_tokens for each in loading] == [36, 24]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "other",
    [torch.float8_e5m2, torch.int8, torch.float32],
)
def test_caches_of_other_dtypes_have_other_fingerprints(other: torch.dtype) -> None:
    """Blocks of fp8_e4m3 and fp8_e5m2 have one size, but do not mean the same."""
    layer, found = LayerCache(2, 2, 16, 16), []
    for dtype in (torch.float8_e4m3fn, torch.float8_e4m3fn, other):
        cache = PagedCache([layer], 4, 4, torch.float32, cache_dtype=dtype)
        transfer = KVTransferConfig(kv_connector="dict")
        worker = TransferWorker(DictWorker(DictStore()), SIMULATED, transfer)
        worker.allocated(
            ShownCache(
                memory=cache,
                num_blocks=4,
                dtype=dtype_name(dtype),
                content=b"the same model",
            )
        )
        sections: dict[str, object] = {}
        worker.describe(sections)
        found.append(KV_LAYOUT.typed(sections[KV_TRANSFER]).fingerprint)

    assert found[0] == found[1] != found[2]


def test_a_missing_distribution_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The option that needs it is named, too."""
    monkeypatch.setattr(extensions, "installed", lambda _: ())

    with pytest.raises(ConfigError, match="pip install hookline-kv-transfer") as caught:
        build_core(SIMULATED, SystemClock())

    assert caught.value.option == "kv-transfer-config"
