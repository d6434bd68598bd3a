"""What a row of the comparison is: work, the compared sides, and goals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from contention import Neighbours

HOOKLINE = "hookline"
UNCACHED = "hookline-uncached"
UNDRAFTED = "hookline-undrafted"
UNRECORDED = "hookline-unrecorded"
UNSTRUCTURED = "hookline-unstructured"
UNWATCHED = "hookline-unwatched"
PLAIN = "hookline-plain"
BASELINE = "hookline-baseline"
VLLM = "vllm"
TRANSFORMERS = "transformers"
LLAMA_CPP = "llama.cpp"


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
        bound: Limit of Hookline's own value: a minimum if more is better, otherwise a
            maximum.
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
        schemas: Number of different JSON schemas that the outputs follow, all new in
            each iteration; 0 leaves them free.
        viewers: Number of viewers of the live view, beside all loggers and the flight
            recorder; "hookline-unwatched" has none of these. Online only.
        is_cold: Whether each start has empty folders for compiled code.
        options: Options of `hookline serve`, with underscores; peers and the side
            "hookline-plain" do the same work without them. Offline only.
        neighbours: What runs beside it, in turn, with the same engine; quiet first.
            Empty if the work is done once, on a quiet machine.
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
    schemas: int = 0
    viewers: int = 0
    is_cold: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    neighbours: tuple[Neighbours, ...] = ()
    sides: tuple[str, ...] = (HOOKLINE, VLLM)

    @property
    def work(self) -> str:
        """Returns a short description of the work."""
        if not self.requests:
            return self.model
        prefix = f"{self.prefix_tokens} shared + " if self.prefix_tokens else ""
        tokens = f"{prefix}{self.input_tokens} + {self.output_tokens}"
        drafts = f", {self.num_drafts} drafts" if self.num_drafts else ""
        schemas = f", {self.schemas} schema(s)" if self.schemas else ""
        viewers = f", {self.viewers} viewers" if self.viewers else ""
        options = "".join(f", {value}" for value in self.options.values())
        more = f"{drafts}{schemas}{viewers}{options}"
        return f"{self.model}, {self.requests} × ({tokens}){more}"
