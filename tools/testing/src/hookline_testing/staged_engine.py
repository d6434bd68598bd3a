"""An engine on a virtual clock whose ring can be read."""

import os
from pathlib import Path

import msgspec

from hookline.clock import VirtualClock
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
    SchedulerConfig,
)
from hookline.engine.commands import Add
from hookline.engine.engine_loop import EngineLoop
from hookline.engine_setup.building import build_core, build_loop
from hookline.request import RequestFacts
from hookline_recording.config import RecordingConfig
from hookline_simulated.config import SimulationConfig
from hookline_testing.simulation import engine_request

START = 1_795_000_000_000_000_000
"""Of its clocks: both say the same."""
RING_BYTES = 256 * 1024


class StagedEngine:
    """An engine of 10 ms a step, whose every moment is known.

    Attributes:
        clock: Its clock.
        loop: Its loop.
        ring: Its ring.
    """

    def __init__(
        self,
        folder: Path,
        *,
        num_seqs: int = 4,
        num_blocks: int = 64,
        name: str | None = None,
    ) -> None:
        self.clock = VirtualClock(START)
        config = EngineConfig(
            model=ModelConfig(max_model_len=16 * num_blocks, served_model_name=name),
            cache=CacheConfig(num_kv_blocks=num_blocks),
            scheduler=SchedulerConfig(max_num_seqs=num_seqs),
            executor=ExecutorConfig(name="simulated"),
            sections={
                "simulated": SimulationConfig(
                    step_seconds=0.01,
                    prefill_token_seconds=0.0,
                    decode_request_seconds=0.0,
                    context_token_seconds=0.0,
                ),
                "recording": RecordingConfig(flight_recorder_bytes=RING_BYTES),
            },
        )
        self.loop: EngineLoop = build_loop(build_core(config, self.clock))
        (self.ring,) = folder.glob(f"hookline-recordings-{os.geteuid()}/*.ring")
        self._number = 0

    @property
    def wall(self) -> int:
        """The wall clock now, ns."""
        return self.clock.wall()

    def add(
        self,
        client: str = "",
        tenant: str | None = None,
        prompt: int = 32,
        n: int = 8,
        *,
        adapter: str | None = None,
    ) -> None:
        """Adds a request of its own prompt that generates `n` tokens."""
        self._number += 1
        request = engine_request(self._number, [self._number] * prompt, n)
        facts = RequestFacts(client_id=client, tenant=tenant, lora=adapter)
        self.turn(Add(msgspec.structs.replace(request, facts=facts)))

    def turn(self, *commands: Add, times: int = 1) -> None:
        """Runs the loop, which first takes the commands."""
        waiting = list(commands)
        for _ in range(times):
            self.loop.run_once(lambda _: waiting.pop(0) if waiting else None, 0.0)
