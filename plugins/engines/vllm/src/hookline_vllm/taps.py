"""The taps of vLLM's engine: those that Hookline's own engine has, too."""

import os
from dataclasses import replace
from typing import Any, cast

from hookline.clock import SystemClock
from hookline.engine.tap import Tap, TapContext
from hookline.events import ClockPair
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import TAP
from hookline_registry import as_one, installed
from hookline_vllm.facts import engine_facts, served_name, vllm_version
from hookline_vllm.options import read_config
from hookline_vllm.steps import StepTeller


def step_teller(scheduler: Any) -> StepTeller | None:
    """Returns what tells the installed taps of a scheduler; None if there is none."""
    vllm_config = scheduler.vllm_config
    parallel = vllm_config.parallel_config
    index = int(getattr(parallel, "data_parallel_index", 0))
    config = read_config(os.environ, served_name(vllm_config))
    config = replace(config, engine_index=index, in_process=False)
    facts = engine_facts(vllm_config, index, vllm_version())
    clock = SystemClock()
    pair = ClockPair(clock.wall(), clock.now())
    context = TapContext(config=config, facts=facts, clock=pair)
    names = (each.name for each in installed(TAP.group))
    made = (call_plugin(TAP, name, context, option="tap") for name in names)
    taps = [cast("Tap", tap) for tap in made if tap is not None]
    return StepTeller(as_one(Tap, taps), scheduler, index) if taps else None
