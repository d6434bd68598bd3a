"""Starts an engine core of vLLM in this process."""

import logging
import os
from dataclasses import replace
from typing import Any

from hookline.clock import SystemClock
from hookline.config.engine import EngineConfig
from hookline.engine.tap import TapContext
from hookline.engine_setup.building import DrivenEngine, make_tap
from hookline.events import ClockPair
from hookline.exceptions import ModelLoadError
from hookline.payloads import EngineFacts
from hookline.pooling import POOLING
from hookline.sampling_values import SamplingDefaults
from hookline.startup_timer import StartupTimer
from hookline_process_engine.counted import CountedEngine
from hookline_registry import Failure, isolate
from hookline_vllm.facts import engine_facts
from hookline_vllm_engine.adapters import load, split
from hookline_vllm_engine.arguments import refuse_own_options, vllm_config
from hookline_vllm_engine.binding import Binding, bind
from hookline_vllm_engine.embedding import pooling_facts
from hookline_vllm_engine.engine import VllmEngine
from hookline_vllm_engine.refusals import NAME, VllmFacts
from hookline_vllm_engine.tells import TELLS

_log = logging.getLogger(__name__)


def start(config: EngineConfig) -> DrivenEngine:
    """Loads the model into vLLM, and returns the engine.

    Raises:
        ConfigError: An option does not fit, or vLLM is missing or another one.
        ModelLoadError: vLLM cannot load the model.
    """
    refuse_own_options(config)
    clock = SystemClock()
    timer = StartupTimer(clock)
    with timer.phase("import"):
        vllm = bind()
    with timer.phase("read config"):
        settings = vllm_config(config, vllm)
        tokenizer = vllm.cached_tokenizer_from_config(settings.model_config)
    with timer.phase("load model"):
        core = _core(config, settings, vllm)
        adapters = load(core, split(config.engine_arguments)[1], vllm)
    facts = replace(
        facts_of(
            settings, config.engine_index, vllm.version, tokenizer, tuple(adapters)
        ),
        data_parallel_size=len(config.engine_indices),
        startup=timer.phases(),
    )
    pair = ClockPair(clock.wall(), clock.now())
    tap = make_tap(TapContext(config=config, facts=facts, clock=pair))
    engine = VllmEngine(
        core, facts, config, vllm, tokenizer=tokenizer, adapters=adapters, tap=tap
    )
    # An engine process counts by itself what any engine tells.
    return CountedEngine(engine) if config.in_process else engine


def facts_of(
    settings: Any,
    engine_index: int,
    version: str,
    tokenizer: Any,
    adapters: tuple[str, ...] = (),
) -> EngineFacts:
    """Returns what front ends have to know of the engine.

    Raises:
        ConfigError: It neither generates nor embeds.
    """
    tells = tuple(TELLS.always)
    facts = engine_facts(settings, engine_index, version, tells=tells)
    model = settings.model_config
    most, vocab_size = int(model.max_logprobs), facts.model.vocab_size
    section = VllmFacts(
        most_logprobs=vocab_size if most < 0 else most,
        drafts=settings.speculative_config is not None,
        adapters=adapters,
        only_embeds=(pooling := pooling_facts(model)) is not None,
    )
    sections = {NAME: section, **({} if pooling is None else {POOLING: pooling})}
    eos = _eos(tokenizer, model.try_get_generation_config())
    return replace(
        facts,
        model=replace(facts.model, eos_token_ids=eos, sampling=_sampling(model)),
        structured_outputs=str(settings.structured_outputs_config.backend),
        sections=sections,
    )


def _eos(tokenizer: Any, generation_config: dict[str, Any]) -> tuple[int, ...]:
    """Returns the tokens that end a text, the tokenizer's first, as vLLM has them."""
    told = generation_config.get("eos_token_id")
    others = [told] if isinstance(told, int) else told or []
    first = getattr(tokenizer, "eos_token_id", None)
    return tuple(dict.fromkeys([*([] if first is None else [first]), *others]))


def _sampling(model: Any) -> SamplingDefaults:
    """Returns what vLLM takes of the model's files and of its arguments."""
    values = dict(model.get_diff_sampling_param())
    if values.get("top_k") in (0, -1):  # all
        del values["top_k"]
    # As in vLLM, the model's own file does not bound what requests ask for.
    most = model.override_generation_config.get("max_new_tokens")
    if model.generation_config not in ("auto", "vllm"):
        most = values.get("max_tokens")
    source = "vLLM's --generation-config" if values else ""
    return SamplingDefaults(values=values, most_tokens=most, source=source)


def _core(config: EngineConfig, settings: Any, vllm: Binding) -> Any:
    # This process has threads of its own, which a fork would lose.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    executor = vllm.Executor.get_class(settings)
    core = isolate(vllm.EngineCore, settings, executor, log_stats=True)
    if isinstance(core, Failure):
        _log.error("vLLM's engine core does not start", exc_info=core.error)
        reason = f"vLLM: {core.summary}"
        raise ModelLoadError(config.model.model, reason) from core.error
    return core
