"""A KV cache whose blocks are equal where those of the recording were."""

from collections import defaultdict

from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.request import Request
from hookline_recording.hashing import DIGEST_BYTES
from hookline_recording.schema import Arrived


class BlockHashes:
    """The recorded hashes of requests' blocks, by their ids."""

    def __init__(self) -> None:
        self._known: defaultdict[int, list[bytes]] = defaultdict(list)

    def of(self, request_id: int) -> list[bytes]:
        """Returns the hashes of a request's first blocks."""
        return self._known[request_id]

    def take_arrived(self, arrived: Arrived, block_size: int) -> None:
        """Takes those of a prompt; one that could not be hashed has none."""
        hashes = divided(arrived.block_hashes)
        if len(hashes) == arrived.prompt_tokens // block_size:
            self._known[arrived.request_id] = hashes

    def take_output(
        self, request_id: int, hashes: bytes, prompt_blocks: int | None
    ) -> None:
        """Takes those of an output, as far as it is known.

        Args:
            request_id: The request.
            hashes: The hashes, joined.
            prompt_blocks: Full blocks of its prompt; None if that is not known.
        """
        known = self._known[request_id]
        if prompt_blocks is not None and len(known) >= prompt_blocks:
            known[prompt_blocks:] = divided(hashes)


class RecordedCache(KVCacheManager):
    """Takes the hashes of blocks from a recording.

    Blocks that it has no hash of are like no others.

    Attributes:
        hashes: The hashes; to be set before the first request.
    """

    hashes: BlockHashes

    def _update_hashes(self, request: Request) -> None:
        own, known = request.block_hashes, self.hashes.of(request.request_id)
        full = len(request.token_ids) // self.block_size
        own += known[len(own) : full]
        while len(own) < full:
            own.append(b"%d,%d" % (request.request_id, len(own)))


def divided(hashes: bytes) -> list[bytes]:
    """Divides joined hashes."""
    size = DIGEST_BYTES
    return [hashes[at : at + size] for at in range(0, len(hashes), size)]
