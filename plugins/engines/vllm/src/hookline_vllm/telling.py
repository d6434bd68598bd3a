"""What tells Hookline's loggers of vLLM: made once vLLM is ready, in its own thread."""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hookline.clock import NANOSECONDS
from hookline.frontend.observation import Observers
from hookline_vllm.engine_account import EngineAccount
from hookline_vllm.facts import engine_facts, served_name, vllm_version
from hookline_vllm.front_end import FrontEnd, NoticeClock
from hookline_vllm.options import read_config
from hookline_vllm.tells import told, untold, without_unfed

_log = logging.getLogger("vllm.hookline")


class Telling:
    """The loggers, and what turns notices into what they get.

    Attributes:
        observers: The loggers, each in its lane.
        front_end: Takes the notices.
        heartbeat_ns: Time between two states of an idle engine.
    """

    def __init__(
        self, vllm_config: Any, engine_indexes: Sequence[int], *, tells_requests: bool
    ) -> None:
        config = read_config(os.environ, served_name(vllm_config))
        self.observers = Observers(without_unfed(config))
        self.heartbeat_ns = round(config.observers.heartbeat_seconds * NANOSECONDS)
        clock, count = NoticeClock(), vllm_config.parallel_config._api_process_count  # noqa: SLF001
        section = untold(told(vllm_config, tells_requests=tells_requests))
        engines = {
            index: EngineAccount(
                replace(
                    engine_facts(vllm_config, index, vllm_version()), sections=section
                ),
                config,
                self.observers,
                clock,
                is_alone=count == len(engine_indexes) == 1,
                tells_requests=tells_requests,
            )
            for index in engine_indexes
        }
        self.front_end = FrontEnd(engines, config, self.observers, clock)
        names = ", ".join(config.observers.stat_loggers) or "none"
        what = "each request is told" if tells_requests else "only sums are told"
        _log.info("hookline: loggers %s; %s", names, what)
        if count > 1:
            _log.warning("hookline: each of %d API servers counts its own", count)
