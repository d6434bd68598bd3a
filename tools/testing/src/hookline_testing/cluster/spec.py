"""What a simulated cluster consists of."""

from collections.abc import Callable
from dataclasses import dataclass

from hookline.engine.engine_core import EngineCore
from hookline.engine.tap import Tap
from hookline_cluster.config import LoadBalancing
from hookline_simulated.config import SimulationConfig

STEP_TIMES = SimulationConfig(
    step_seconds=0.008, prefill_token_seconds=0.000025, decode_request_seconds=0.00015
)
"""A step as a small model on one accelerator takes it: 8 ms, 25 µs for each prompt
token and 0.15 ms for each decode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """Engines and front ends, and the links between them.

    Attributes:
        engines: Number of engines.
        front_ends: Number of front ends, each of which reaches every engine.
        balancing: How each front end chooses engines.
        link_seconds: Time of a message in either direction.
        cache_blocks: KV blocks of each engine, of 16 tokens.
        max_num_seqs: Requests that run at once on each engine.
        max_model_len: Context length.
        step_times: Durations of steps.
        has_cache_events: Whether engines report the changes of their prefix caches.
        heartbeat_seconds: Interval of the states of idle engines.
        sample_seconds: Interval at which loads are measured and books are checked.
        tap: Makes the tap of an engine; None without any.
    """

    engines: int
    front_ends: int = 1
    balancing: LoadBalancing = LoadBalancing.SCORE
    link_seconds: float = 0.001
    cache_blocks: int = 8192
    max_num_seqs: int = 32
    max_model_len: int = 8192
    step_times: SimulationConfig = STEP_TIMES
    has_cache_events: bool = False
    heartbeat_seconds: float = 1.0
    sample_seconds: float = 0.1
    tap: Callable[[EngineCore], Tap] | None = None
