"""The extension's side in a worker: obeys orders, and puts adapters into steps."""

from hookline.config.engine import EngineConfig
from hookline.engine.decoder import Decoder
from hookline.engine.worker.extension import LoadedParts, WorkerSide
from hookline.engine.worker.forward import Feed, Forward
from hookline.exceptions import ConfigError
from hookline.step import AdmittedSequence, StepPlan
from hookline_kernels.cache_numbers import dtype_name
from hookline_kernels.failure import KernelError
from hookline_lora.adapter import USE
from hookline_lora.config import OPTION, LoraConfig
from hookline_lora.files.paths import find_adapter
from hookline_lora.files.weights import read_adapter
from hookline_lora.messages import ORDERS, AdapterReports
from hookline_lora.pacing import Pacing
from hookline_lora.targets import LoraTargets
from hookline_lora.worker.adapted_decoder import AdaptedDecoder
from hookline_lora.worker.feed import BASE, AdapterFeed, SlotColumn
from hookline_lora.worker.own_layers import ModelLayers, find_layers
from hookline_lora.worker.sites import AdapterSites, PackedAdapter
from hookline_lora.worker.store import AdapterStore
from hookline_metrics.adapters import LORA


class LoraWorker(WorkerSide):
    """Adapters of one rank. A step with adapters may be drawn ahead like any other.

    While the model's weights are away, adapters stay in main memory; their slots are
    filled again once the model is back.
    """

    keeps_forward = True
    allows_ahead = True

    def __init__(self, config: EngineConfig, lora: LoraConfig) -> None:
        """Knows no model yet.

        Args:
            config: The rank's configuration.
            lora: That of adapters.
        """
        self._config, self._lora = config, lora
        self._store = AdapterStore(self._read)
        self._pacing = Pacing()
        self._slots: dict[str, int] = {}
        self._layers: ModelLayers | None = None
        self._made: AdapterSites | None = None
        self._column: SlotColumn | None = None

    # -- the model ---------------------------------------------------------------

    def prepare(self, parts: LoadedParts) -> None:
        """Finds the layers that adapters may change."""
        self._layers = find_layers(parts, self._config)
        self._dtype, self._device = parts.model.dtype, parts.platform.device
        self._family = parts.model.config.get_text_config().model_type

    def forward(self, forward: Forward) -> Forward:
        """Puts layers with adapters into a decoder, and fills the slots it had.

        Raises:
            ConfigError: The model runs otherwise, or no kernel adds adapters to it.
        """
        if not isinstance(forward, Decoder):
            why = f" ({forward.reason})" if forward.reason else ""
            raise ConfigError(
                OPTION,
                f"models of type {self._family} cannot have adapters: this one runs as "
                f"{forward.name}{why}",
            )
        assert self._layers is not None, "the model is prepared"
        sites = AdapterSites(
            self._layers,
            self._lora.target_modules,
            self._dtype,
            self._lora.max_loras,
            self._device,
        )
        try:
            forward.adapted = AdaptedDecoder(forward, sites)
        except KernelError as error:
            raise ConfigError(OPTION, str(error)) from error
        self._made = sites
        for digest, slot in self._slots.items():
            sites.set(slot, self._store.adapters[digest])
        return forward

    def describe(self, sections: dict[str, object]) -> None:
        """Tells which layers adapters may change."""
        dtype = dtype_name(self._dtype)
        sections[LORA] = LoraTargets(shapes=self._sites.targets, dtype=dtype)

    def feed(self, feed: Feed) -> Feed:
        """Adds the adapters of their rows to batches."""
        scheduler = self._config.scheduler
        if self._column is None:
            self._column = SlotColumn(
                scheduler.max_num_seqs,
                scheduler.tokens_per_step,
                self._lora.max_loras,
                self._device,
            )
        return AdapterFeed(feed, self._column)

    def unload(self) -> None:
        """Empties the slots on the device; adapters stay in main memory."""
        for slot in self._slots.values():
            self._sites.clear(slot)

    def close(self) -> None:
        """Ends the thread that reads adapters."""
        self._store.close()

    @property
    def _sites(self) -> AdapterSites:
        assert self._made is not None, "the forward pass was chosen"
        return self._made

    def _read(self, digest: str, path: str) -> PackedAdapter:
        """Reads an adapter; runs in the background, during sleep as well.

        Raises:
            AdapterError: It cannot be used, or is not the one of this digest.
        """
        assert self._layers is not None, "the model is prepared"
        sites, rest = self._sites, self._pacing.rests()
        weights = read_adapter(
            find_adapter(path),
            digest=digest,
            targets=sites.readable,
            config=self._lora,
            dtype=self._dtype,
            part=self._layers.part,
            rest=rest,
        )
        return sites.pack(weights, rest)

    # -- a step ------------------------------------------------------------------

    def started(self, plan: StepPlan) -> None:
        """Carries out the step's orders, if it has any."""
        if plan.request_ids:
            self._pacing.stepped()
        if (orders := ORDERS.read(plan.sections)) is None:
            return
        for digest in orders.drop:
            self._empty(digest)
            self._store.drop(digest)
        self._store.load(orders.load)
        for slot, digest in orders.fill.items():
            for former in [own for own, at in self._slots.items() if at == slot]:
                del self._slots[former]
            self._empty(digest)
            self._sites.set(slot, self._store.adapters[digest])
            self._slots[digest] = slot
        if self._column is not None:
            self._column.change_logits = self._sites.change_logits

    def _empty(self, digest: str) -> None:
        """Takes an adapter out of its slot, if it has one."""
        if (slot := self._slots.pop(digest, None)) is not None:
            self._sites.clear(slot)

    def ended(self, sections: dict[str, object]) -> None:
        """Tells of adapters that have been read; with other ranks, always something."""
        reports = self._store.reports()
        if reports is None and self._config.parallel.world_size > 1:
            reports = AdapterReports()
        if reports is not None:
            sections[LORA] = reports

    def joined(self, row: int, sequence: AdmittedSequence) -> bool:
        """Notes a request's slot. It counts until the next request joins in its row."""
        assert self._column is not None, "steps are computed after `feed`"
        slot = BASE
        if (use := USE.read(sequence.sections)) is not None:
            slot = self._slots[use.digest]
        self._column.set(row, slot)
        return False
