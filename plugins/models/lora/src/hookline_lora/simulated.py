"""Adapters of a simulated model: they take time to load, and to compute with."""

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hookline.clock import NANOSECONDS, Clock
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline.model_description import find_folder, read_object
from hookline.step import ModelShape, StepPlan
from hookline_lora.adapter import USE
from hookline_lora.config import OPTION, LoraConfig
from hookline_lora.exceptions import AdapterError
from hookline_lora.files.layout import opened
from hookline_lora.files.paths import find_adapter
from hookline_lora.messages import ORDERS, AdapterReports, LoadedWeights
from hookline_lora.targets import LoraTargets
from hookline_metrics.adapters import LORA
from hookline_simulated.config import SimulationConfig

if TYPE_CHECKING:  # it is only read
    from hookline_simulated.simulation import SimulatedStep


@dataclass(frozen=True, slots=True)
class _Loading:
    """An adapter that is being loaded.

    Attributes:
        digest: Its digest.
        ends_at: When that is done, monotonic ns.
        found: What will be told of it.
    """

    digest: str
    ends_at: int
    found: LoadedWeights | str


class SimulatedAdapters:
    """Carries out orders for adapters on a clock. Implements `CostlySimulation`.

    Of files the headers are read, which tell ranks. Adapters are loaded one after
    another, each for a time by its rank.
    """

    def __init__(
        self, config: EngineConfig, lora: LoraConfig, shape: ModelShape, clock: Clock
    ) -> None:
        """Reads the simulated model's layers from its description.

        Raises:
            ConfigError: It is no usual decoder.
            ModelLoadError: Its description is missing or damaged.
        """
        self._costs, self._lora, self._clock = SimulationConfig.of(config), lora, clock
        self._targets = LoraTargets(
            shapes=_shapes(config.model.model), dtype=_dtype(shape)
        )
        self._loading: deque[_Loading] = deque()
        self._free_at = 0
        self._ranks: dict[str, int] = {}
        self._used: dict[int, int] = {}

    def describe(self, sections: dict[str, object]) -> None:
        """Tells which layers adapters may change."""
        sections[LORA] = self._targets

    def step_seconds(self, plan: StepPlan) -> float:
        """Carries out a step's orders; returns the time of its adapters' products."""
        if (orders := ORDERS.read(plan.sections)) is not None:
            for digest in orders.drop:
                self._ranks.pop(digest, None)
            for digest, path in orders.load.items():
                self._load(digest, path)
        for request_id in plan.released:
            self._used.pop(request_id, None)
        for admitted in plan.admitted:
            if (use := USE.read(admitted.sections)) is not None:
                self._used[admitted.request_id] = self._ranks[use.digest]
        if not self._used:
            return 0.0
        counts = zip(plan.request_ids, plan.num_tokens, strict=True)
        products = sum(self._used.get(request, 0) * count for request, count in counts)
        return self._costs.adapter_token_seconds * products

    def _load(self, digest: str, path: str) -> None:
        found: LoadedWeights | str
        seconds = 0.0
        try:
            rank, num_bytes = self._header(path)
        except AdapterError as error:
            found = error.reason
        else:
            self._ranks[digest] = rank
            seconds = self._costs.adapter_rank_seconds * rank
            found = LoadedWeights(seconds, num_bytes)
        begins_at = max(self._clock.now(), self._free_at)
        self._free_at = begins_at + round(seconds * NANOSECONDS)
        self._loading.append(_Loading(digest, self._free_at, found))

    def _header(self, path: str) -> tuple[int, int]:
        """Returns an adapter's rank and the bytes of its weights; reads no numbers.

        Raises:
            AdapterError: It does not fit the model, or its header is wrong.
        """
        folder, targets = find_adapter(path), self._targets.shapes
        with opened(folder, targets, self._lora) as layout:
            rank = max((each.rank for each in layout.products), default=0)
            return rank, sum(place.num_bytes for _, place in layout.places())

    def __call__(self, step: "SimulatedStep") -> None:
        """Tells of the adapters that have been loaded by now, each once."""
        loaded: dict[str, LoadedWeights] = {}
        failed: dict[str, str] = {}
        now = self._clock.now()
        while self._loading and self._loading[0].ends_at <= now:
            digest = self._loading[0].digest
            if digest in loaded or digest in failed:
                break  # its second loading is told next time
            found = self._loading.popleft().found
            if isinstance(found, str):
                failed[digest] = found
            elif digest in self._ranks:
                loaded[digest] = found
            else:
                failed[digest] = "it was dropped while it was read"
        if loaded or failed:
            step.sections[LORA] = AdapterReports(loaded, failed)


def _dtype(shape: ModelShape) -> str:
    """Numbers of adapters; what `auto` would be is not known without weights."""
    known = {"bfloat16", "float16", "float32"}
    return shape.dtype if shape.dtype in known else "bfloat16"


def _shapes(model: str) -> dict[str, tuple[int, int]]:
    """Returns the layers of a decoder like Llama with the sizes of a configuration."""
    read = read_object(model, find_folder(model) / "config.json")

    def size(name: str, default: int | None = None) -> int:
        found = read.get(name)
        found = default if found is None else found
        if not isinstance(found, int) or found < 1:
            raise ConfigError(
                OPTION, f"simulated adapters need {name} in the model's config.json"
            )
        return found

    hidden, inner = size("hidden_size"), size("intermediate_size")
    heads = size("num_attention_heads")
    width = size("head_dim", hidden // heads)
    queries, keys = heads * width, size("num_key_value_heads", heads) * width
    vocab = size("vocab_size")
    inside = {
        "self_attn.q_proj": (hidden, queries),
        "self_attn.k_proj": (hidden, keys),
        "self_attn.v_proj": (hidden, keys),
        "self_attn.o_proj": (queries, hidden),
        "mlp.gate_proj": (hidden, inner),
        "mlp.up_proj": (hidden, inner),
        "mlp.down_proj": (inner, hidden),
    }
    layers = {
        f"model.layers.{layer}.{name}": shape
        for layer in range(size("num_hidden_layers"))
        for name, shape in inside.items()
    }
    tables = {"model.embed_tokens": (vocab, hidden), "lm_head": (hidden, vocab)}
    return {**layers, **tables}
