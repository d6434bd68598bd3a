"""The scheduler's side: looks up blocks in storage and orders loads and saves."""

import time
from collections.abc import Mapping, Sequence
from itertools import takewhile

import msgspec

from hookline_kv_transfer import (
    ConnectorMetadata,
    ConnectorRequest,
    KVLayout,
    Load,
    PlannedStep,
    SchedulerCapabilities,
    TierReset,
)
from hookline_shared_storage.options import StorageOptions
from hookline_shared_storage.rank_stores import RankStores
from hookline_shared_storage.tasks import LoadTask, Report, Tasks

PROMISED = "remote_num_blocks"
"""Key in `kv_transfer_params`: number of full prompt blocks stored or promised."""

_WRITING_SECONDS = 10.0
"""Time after which an ordered write has succeeded or failed."""


class SchedulerSide:
    """Looks up files without reading them."""

    capabilities = SchedulerCapabilities(
        receives_payloads=True, resets_cache=True, hit_source="disk"
    )

    def __init__(self, options: StorageOptions) -> None:
        self._options = options
        self._loads: list[LoadTask] = []
        self._ordered_at: dict[bytes, float] = {}
        self._num_resets, self._told_resets = 0, 0
        self._report = Report()

    def register_kv_layout(self, layout: KVLayout) -> None:
        self._block_size = layout.block_size
        self._store = RankStores(self._options, layout)

    def get_num_new_matched_tokens(
        self, request: ConnectorRequest, num_computed_tokens: int
    ) -> tuple[int, bool]:
        count, computed = 0, num_computed_tokens // self._block_size
        if self._is_resetting:
            return 0, False
        for block_hash in request.block_hashes[computed:]:
            if not self._store.has(block_hash):
                break
            count += 1
        if self._options.load_async:
            count = max(count, self._promised_blocks(request) - computed)
        return count * self._block_size, self._options.load_async and count > 0

    def update_state_after_alloc(self, request: ConnectorRequest, load: Load) -> None:
        self._loads.append(
            LoadTask(
                load.transfer_id,
                list(load.block_ids),
                list(load.block_hashes),
                load.is_async,
                self._promised_blocks(request) > 0,
            )
        )

    def build_connector_meta(self, step: PlannedStep) -> ConnectorMetadata | None:
        loads, self._loads = self._loads, []
        saves = [
            (each.block_id, each.block_hash)
            for each in step.written
            if not self._store.has(each.block_hash)
        ]
        self._note_ordered([block_hash for _, block_hash in saves])
        is_told = self._told_resets == self._num_resets
        if not loads and not saves and not step.spoilt and is_told:
            return None
        self._told_resets = self._num_resets
        tasks = Tasks(loads, saves, self._num_resets, list(step.spoilt))
        return ConnectorMetadata(msgspec.msgpack.encode(tasks))

    def update_connector_output(self, payload: bytes) -> None:
        """Learns whether the worker has emptied the storage, and whether it saves."""
        self._report = msgspec.msgpack.decode(payload, type=Report)

    def reset_cache(self, *, external: bool | None) -> Mapping[str, TierReset]:
        """Empties the folder of this layout, for all engines that share it."""
        if not external:
            return {"disk": TierReset.KEPT}
        self._num_resets += 1
        self._ordered_at.clear()
        is_empty = self._store.empty()
        return {"disk": TierReset.RESET if is_empty else TierReset.FAILED}

    def request_finished(
        self,
        request: ConnectorRequest,
        block_ids: Sequence[int],
        transfer_id: int,  # noqa: ARG002 - blocks are saved as they are filled
    ) -> tuple[bool, Mapping[str, object] | None]:
        """Returns the number of stored or promised blocks for a decoding engine."""
        params = request.kv_transfer_params or {}
        if params.get("do_remote_decode") is not True or not block_ids:
            return False, None
        tokens = min(request.num_computed_tokens, request.num_prompt_tokens)
        hashes = request.block_hashes[: tokens // self._block_size]
        return False, {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            PROMISED: sum(1 for _ in takewhile(self._will_be_there, hashes)),
        }

    def shutdown(self) -> None:
        """Does nothing: it holds no resources."""

    @property
    def _is_resetting(self) -> bool:
        """Whether blocks from before a reset may still be written or there."""
        return self._report.num_resets != self._num_resets

    def _note_ordered(self, block_hashes: Sequence[bytes]) -> None:
        """Records ordered writes and drops old ones."""
        now = time.monotonic()
        while self._ordered_at:
            oldest = next(iter(self._ordered_at))
            if self._ordered_at[oldest] > now - _WRITING_SECONDS:
                break
            del self._ordered_at[oldest]
        for block_hash in block_hashes:
            self._ordered_at.pop(block_hash, None)
            self._ordered_at[block_hash] = now

    def _will_be_there(self, block_hash: bytes) -> bool:
        """Whether a block is stored or was recently ordered to be."""
        ordered_at = self._ordered_at.get(block_hash, float("-inf"))
        is_late = time.monotonic() > ordered_at + _WRITING_SECONDS
        is_coming = not is_late and self._report.is_saving
        return is_coming or self._store.has(block_hash)

    def _promised_blocks(self, request: ConnectorRequest) -> int:
        """Returns the number of the prompt's blocks that another engine promised.

        Clients may send any number: too large a number only delays their own request.
        """
        params = request.kv_transfer_params or {}
        promised = params.get(PROMISED)
        if params.get("do_remote_prefill") is not True or type(promised) is not int:
            return 0
        return min(promised, len(request.block_hashes))
