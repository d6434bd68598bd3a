"""The work on which Hookline and its peers are compared, and the goals."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

HOOKLINE = "hookline"
UNCACHED = "hookline-uncached"
UNDRAFTED = "hookline-undrafted"
BASELINE = "hookline-baseline"
VLLM = "vllm"
TRANSFORMERS = "transformers"


class Kind(Enum):
    """How a row's work is sent to an engine."""

    OFFLINE = "offline"
    ONLINE = "online"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a row.

    Attributes:
        metric: Name in a run's result.
        is_higher_better: Whether more is better.
        ratio: Goal for Hookline's value over the peer's: a minimum if more is better,
            otherwise a maximum. None if the ratio is only reported.
        peer: The peer to compare with.
        bound: Maximum of Hookline's value.
    """

    metric: str
    is_higher_better: bool = True
    ratio: float | None = None
    peer: str = VLLM
    bound: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One piece of work.

    Attributes:
        dtype: Dtype of weights and KV cache: the checkpoint's, which some peers change.
        input_tokens: Prompt length without the prefix.
        prefix_tokens: Length of the prefix shared by all prompts.
        iterations: Number of repetitions in one run, with different prompts; the
            median counts.
        concurrency: Maximum number of open requests, online.
        num_drafts: Maximum number of draft tokens per request and step, from prompt
            lookup with suffixes of 2 to 5 tokens; 0 disables speculation. Prompts of
            such a row repeat themselves.
        sides: The compared sides, in order of running.
    """

    kind: Kind
    model: str
    goals: tuple[Goal, ...]
    dtype: str = "bfloat16"
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    prefix_tokens: int = 0
    iterations: int = 1
    concurrency: int = 64
    num_drafts: int = 0
    sides: tuple[str, ...] = (HOOKLINE, VLLM)

    @property
    def work(self) -> str:
        """Returns a short description of the work."""
        if not self.requests:
            return self.model
        prefix = f"{self.prefix_tokens} shared + " if self.prefix_tokens else ""
        tokens = f"{prefix}{self.input_tokens} + {self.output_tokens}"
        drafts = f", {self.num_drafts} drafts" if self.num_drafts else ""
        return f"{self.model}, {self.requests} × ({tokens}){drafts}"


def _latency(batch: int) -> Row:
    return Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=batch,
        input_tokens=32,
        output_tokens=128,
        iterations=5,
        goals=(Goal("output tok/s", ratio=1.3), Goal("ms", is_higher_better=False)),
    )


def _ngram(batch: int, sides: tuple[str, ...]) -> Row:
    return Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=batch,
        input_tokens=256,
        output_tokens=256,
        iterations=3,
        num_drafts=4,
        sides=sides,
        goals=tuple(
            Goal("output tok/s", ratio=1.6 if peer == UNDRAFTED else None, peer=peer)
            for peer in sides[1:]
        ),
    )


ROWS: Mapping[str, Row] = {
    "offline-90m": Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=256,
        input_tokens=128,
        output_tokens=128,
        sides=(HOOKLINE, VLLM, TRANSFORMERS),
        goals=(
            Goal("output tok/s", ratio=1.4),
            Goal("output tok/s", peer=TRANSFORMERS),
        ),
    ),
    "offline-0.6b": Row(
        kind=Kind.OFFLINE,
        model="qwen3-0.6b",
        requests=16,
        input_tokens=128,
        output_tokens=64,
        sides=(HOOKLINE, VLLM, TRANSFORMERS),
        goals=(
            Goal("output tok/s", ratio=1.15),
            Goal("output tok/s", peer=TRANSFORMERS),
        ),
    ),
    "latency-90m-1": _latency(1),
    "latency-90m-8": _latency(8),
    "online-tiny": Row(
        kind=Kind.ONLINE,
        model="llama-tiny",
        dtype="float32",
        requests=400,
        input_tokens=128,
        output_tokens=64,
        goals=(
            Goal("output tok/s", ratio=2.0),
            Goal("mean TTFT ms", is_higher_better=False, ratio=0.6),
            Goal("memory MiB", is_higher_better=False, ratio=0.6),
        ),
    ),
    "online-90m": Row(
        kind=Kind.ONLINE,
        model="llama-90m",
        requests=128,
        input_tokens=128,
        output_tokens=64,
        goals=(
            Goal("output tok/s", ratio=1.3),
            Goal("p99 ITL ms", is_higher_better=False, ratio=1.0),
        ),
    ),
    "long-90m": Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=8,
        input_tokens=3500,
        output_tokens=64,
        goals=(Goal("total tok/s", ratio=1.2),),
    ),
    "prefix-90m": Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=64,
        input_tokens=64,
        output_tokens=64,
        prefix_tokens=1024,
        goals=(Goal("output tok/s", ratio=1.2),),
    ),
    "prefix-cost-90m": Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=64,
        input_tokens=1088,
        output_tokens=64,
        sides=(HOOKLINE, UNCACHED),
        goals=(Goal("output tok/s", ratio=0.99, peer=UNCACHED),),
    ),
    # prompt lookup of transformers takes one request at a time
    "ngram-90m-1": _ngram(1, (HOOKLINE, UNDRAFTED, VLLM, TRANSFORMERS)),
    "ngram-90m-16": _ngram(16, (HOOKLINE, UNDRAFTED, VLLM)),
    "ready-tiny": Row(
        kind=Kind.READY,
        model="llama-tiny",
        dtype="float32",
        goals=(
            Goal("ready s", is_higher_better=False, ratio=0.2, bound=6.0),
            Goal("memory MiB", is_higher_better=False, ratio=0.6),
        ),
    ),
}
