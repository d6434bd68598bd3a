"""The scheduler's side: reads and writes `kv_transfer_params`, orders transfers."""

from collections.abc import Mapping, Sequence

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
from hookline_p2p.options import Mode, P2POptions
from hookline_p2p.params import (
    RemotePrefill,
    Source,
    decoder_of,
    prefill_params,
    remote_prefill,
    wants_remote_decode,
)
from hookline_p2p.tasks import Address, KeepTask, LoadTask, Place, Tasks
from hookline_p2p.transport import Peer


class SchedulerSide:
    """Orders transfers by requests' parameters alone; does no communication."""

    capabilities = SchedulerCapabilities(resets_cache=True, hit_source="p2p")

    def __init__(self, options: P2POptions) -> None:
        self._options = options
        self._tasks = Tasks()
        self._asked: set[int] = set()

    def register_kv_layout(self, layout: KVLayout) -> None:
        self._block_size = layout.block_size
        self._ranks = [
            msgspec.msgpack.decode(each.handshake, type=Address)
            for each in layout.of_each_rank
        ]

    def get_num_new_matched_tokens(
        self, request: ConnectorRequest, num_computed_tokens: int
    ) -> tuple[int, bool]:
        """Returns the tokens that the producer keeps, once per request."""
        if request.request_id in self._asked:
            return 0, False
        if (found := self._remote(request)) is None:
            return 0, False
        size = self._block_size
        hashes = len(request.block_hashes) * size
        count = min(found.num_tokens // size * size, hashes) - num_computed_tokens
        return max(0, count), count > 0

    def update_state_after_alloc(self, request: ConnectorRequest, load: Load) -> None:
        found = self._remote(request)
        assert found is not None  # or it had offered nothing
        self._asked.add(request.request_id)
        self._tasks.loads.append(
            LoadTask(
                load.transfer_id,
                list(load.block_ids),
                list(load.block_hashes),
                _places(found),
            )
        )

    def build_connector_meta(self, step: PlannedStep) -> ConnectorMetadata | None:
        tasks, self._tasks = self._tasks, Tasks()
        tasks.cancelled = list(step.cancelled)
        if tasks == Tasks():
            return None
        return ConnectorMetadata(msgspec.msgpack.encode(tasks))

    def request_finished(
        self, request: ConnectorRequest, block_ids: Sequence[int], transfer_id: int
    ) -> tuple[bool, Mapping[str, object] | None]:
        """Keeps the prompt's blocks for a decoding engine.

        A request that ends before its load releases the blocks kept for it.
        """
        was_asked = request.request_id in self._asked
        self._asked.discard(request.request_id)
        found = self._remote(request, counts=not was_asked)
        if found is not None and not was_asked:
            self._tasks.unwanted.append(_places(found))
        if not wants_remote_decode(request.kv_transfer_params):
            return False, None
        if request.num_computed_tokens < request.num_prompt_tokens:
            return False, None  # it was ended before there was all
        count = min(len(block_ids), request.num_computed_tokens // self._block_size)
        if count == 0:
            return False, None
        self._tasks.keeps.append(
            KeepTask(
                transfer_id,
                list(block_ids[:count]),
                list(request.block_hashes[:count]),
                self._decoder(request.kv_transfer_params),
            )
        )
        host = self._options.public_host
        own = [
            Source(Peer(each.engine_id, host, each.port), transfer_id)
            for each in self._ranks
        ]
        return True, prefill_params(own, count * self._block_size)

    def reset_cache(self, *, external: bool | None) -> Mapping[str, TierReset]:
        """Does nothing: what is kept for another engine answers no look-up."""
        del external
        return {}

    def shutdown(self) -> None:
        """Does nothing: it holds no resources."""

    def _remote(
        self, request: ConnectorRequest, *, counts: bool = False
    ) -> RemotePrefill | None:
        """Returns the parameters of a remote prefill, or None if absent or invalid."""
        try:
            found = remote_prefill(request.kv_transfer_params)
        except ValueError:
            self._tasks.bad_params += counts
            return None
        if found is None or self._options.may_connect(found.sources[0].peer.host):
            return found
        self._tasks.bad_params += counts
        return None

    def _decoder(self, params: Mapping[str, object] | None) -> tuple[str, int] | None:
        if self._options.mode is not Mode.PUSH:
            return None
        try:
            peer = decoder_of(params)
        except ValueError:
            peer = None
            self._tasks.bad_params += 1
        if peer is None or not self._options.may_connect(peer.host):
            return None
        return peer.host, peer.port


def _places(found: RemotePrefill) -> list[Place]:
    return [Place(*each.peer, each.transfer_id) for each in found.sources]
