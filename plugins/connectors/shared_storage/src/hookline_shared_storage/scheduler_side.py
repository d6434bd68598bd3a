"""Knows what there is in storage, and orders what is to be moved."""

from collections.abc import Mapping, Sequence

import msgspec

from hookline.kv_transfer import (
    ConnectorMetadata,
    ConnectorRequest,
    KVLayout,
    Load,
    PlannedStep,
)
from hookline_shared_storage.options import StorageOptions
from hookline_shared_storage.store import BlockStore
from hookline_shared_storage.tasks import LoadTask, Tasks


class SchedulerSide:
    """Looks for files, and for nothing in them."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options
        self._loads: list[LoadTask] = []

    def register_kv_layout(self, layout: KVLayout) -> None:
        self._block_size = layout.block_size
        self._store = BlockStore(self._options, layout)

    def get_num_new_matched_tokens(
        self, request: ConnectorRequest, num_computed_tokens: int
    ) -> tuple[int, bool]:
        count, computed = 0, num_computed_tokens // self._block_size
        for block_hash in request.block_hashes[computed:]:
            if not self._store.has(block_hash):
                break
            count += 1
        return count * self._block_size, self._options.load_async and count > 0

    def update_state_after_alloc(
        self,
        request: ConnectorRequest,  # noqa: ARG002 - the load says all
        load: Load,
    ) -> None:
        self._loads.append(
            LoadTask(
                load.transfer_id,
                list(load.block_ids),
                list(load.block_hashes),
                load.is_async,
            )
        )

    def build_connector_meta(self, step: PlannedStep) -> ConnectorMetadata | None:
        loads, self._loads = self._loads, []
        saves = [
            (each.block_id, each.block_hash)
            for each in step.written
            if not self._store.has(each.block_hash)
        ]
        if not loads and not saves:
            return None
        return ConnectorMetadata(msgspec.msgpack.encode(Tasks(loads, saves)))

    def request_finished(
        self,
        request: ConnectorRequest,  # noqa: ARG002 - blocks are saved as they are filled
        block_ids: Sequence[int],  # noqa: ARG002
        transfer_id: int,  # noqa: ARG002
    ) -> tuple[bool, Mapping[str, object] | None]:
        return False, None

    def shutdown(self) -> None:
        """Has nothing to give back."""
