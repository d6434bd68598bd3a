"""What tells Hookline's loggers of vLLM: made once vLLM is ready, in its own thread."""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hookline.clock import NANOSECONDS
from hookline_registry import isolate
from hookline_vllm.api_servers import ApiServers
from hookline_vllm.engine_account import EngineAccount
from hookline_vllm.facts import engine_facts, served_name, vllm_version
from hookline_vllm.front_end import FrontEnd, NoticeClock
from hookline_vllm.options import read_config
from hookline_vllm.tells import told

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
        self._servers = ApiServers.of(vllm_config)
        self.observers = self._servers.observe(config)
        self.heartbeat_ns = round(config.observers.heartbeat_seconds * NANOSECONDS)
        clock, sections = NoticeClock(), self._servers.sections(self.observers)
        tells = told(
            vllm_config,
            tells_requests=tells_requests,
            has_process=self.observers.address is not None,
        )
        is_alone = self._servers.count == len(engine_indexes) == 1
        engines = {
            index: EngineAccount(
                replace(
                    engine_facts(vllm_config, index, vllm_version(), tells=tells),
                    sections=sections,
                ),
                config,
                self.observers,
                clock,
                is_alone=is_alone,
                tells_requests=tells_requests,
            )
            for index in engine_indexes
        }
        self.front_end = FrontEnd(engines, config, self.observers, clock)
        names = ", ".join(config.observers.stat_loggers) or "none"
        what = "each request is told" if tells_requests else "only sums are told"
        where = "" if self.observers.address is None else ", in a process of their own"
        _log.info("hookline: loggers %s%s; %s", names, where, what)
        if getattr(vllm_config.parallel_config, "enable_elastic_ep", False):
            _log.warning("hookline: vLLM drops its loggers when it scales up")

    def close(self, timeout_seconds: float) -> None:
        """Ends all requests, and then the loggers."""
        isolate(self.front_end.close)
        self.observers.close(timeout_seconds)
        self._servers.forget()
