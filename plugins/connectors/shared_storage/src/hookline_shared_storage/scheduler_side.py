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

PROMISED = "remote_num_blocks"
"""In `kv_transfer_params`: full blocks of the prompt that are or will soon be there."""


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
        if not loads and not saves:
            return None
        return ConnectorMetadata(msgspec.msgpack.encode(Tasks(loads, saves)))

    def request_finished(
        self,
        request: ConnectorRequest,
        block_ids: Sequence[int],
        transfer_id: int,  # noqa: ARG002 - blocks are saved as they are filled
    ) -> tuple[bool, Mapping[str, object] | None]:
        """Promises what is on its way into storage to whoever decodes elsewhere."""
        params = request.kv_transfer_params or {}
        if params.get("do_remote_decode") is not True or not block_ids:
            return False, None
        tokens = min(request.num_computed_tokens, request.num_prompt_tokens)
        return False, {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            PROMISED: tokens // self._block_size,
        }

    def shutdown(self) -> None:
        """Has nothing to give back."""

    def _promised_blocks(self, request: ConnectorRequest) -> int:
        """How many of the prompt's blocks another engine says it is storing.

        Clients may write what they like: who promises too much only waits.
        """
        params = request.kv_transfer_params or {}
        promised = params.get(PROMISED)
        if params.get("do_remote_prefill") is not True or type(promised) is not int:
            return 0
        return min(promised, len(request.block_hashes))
