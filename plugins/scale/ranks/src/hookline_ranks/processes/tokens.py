"""Sampled tokens on their way from the output rank to the ranks that follow it."""

import numpy as np

from hookline.engine.worker.input_batch import Int64
from hookline.engine.worker.sampling.sampler import StepSampler
from hookline_ranks.processes.links import RankLinks
from hookline_ranks.processes.ring import RingReader, RingWriter, ring_bytes
from hookline_ranks.processes.shared_memory import SharedMemory
from hookline_ranks.shared_samples import FollowingSampler, SharingSampler


class TokenSender:
    """The end of the output rank."""

    def __init__(self, links: RankLinks) -> None:
        self._ring = RingWriter(_memory(links), links.token_bells)

    def broadcast(self, token_ids: Int64) -> None:
        """Sends the tokens [S] of a step."""
        self._ring.write(token_ids.tobytes(), _wait_on)

    def sharing(self, sampler: StepSampler) -> StepSampler:
        """Returns a sampler that sends what the given one samples."""
        return SharingSampler(sampler, self.broadcast)


class TokenReceiver:
    """The end of a follower."""

    def __init__(self, links: RankLinks) -> None:
        self._ring = RingReader(
            _memory(links),
            links.token_bells[links.follower],
            index=links.follower,
            readers=len(links.token_bells),
        )

    def receive(self, count: int) -> Int64:
        """Waits for the tokens of a step, of which there are `count`."""
        while (message := self._ring.read(None)) is None:
            pass
        token_ids = np.frombuffer(message, np.int64)
        assert len(token_ids) == count, "all ranks compute the same steps"
        return token_ids

    def following(self, _: StepSampler) -> StepSampler:
        """Returns a sampler that takes the output rank's tokens."""
        return FollowingSampler(self.receive)


def _memory(links: RankLinks) -> SharedMemory:
    return SharedMemory(ring_bytes(len(links.token_bells)), links.tokens)


def _wait_on() -> None:
    """A follower that has ended is noticed by the executor, which ends all ranks."""
