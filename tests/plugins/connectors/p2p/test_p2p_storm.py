"""Two producers, two consumers, and a wire on which everything happens."""

import random
from collections.abc import Callable, Sequence

import pytest

from hookline.config.extensions import KV_TRANSFER
from hookline.request import FinishReason
from hookline_faults.p2p_transport import PREFILL, Spoil, Wire, flipped
from hookline_kv_transfer.blocks import Bytes
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.driven_engine import DrivenEngine, Timing, rest
from hookline_testing.own_time import Deadline

MakeEngine = Callable[..., tuple[DrivenEngine, Wire]]

NUM_REQUESTS = 200
SHARE = 0.05


def stormy(source: random.Random) -> Spoil:
    """One message of twenty is lost, doubled, late, damaged, or not one at all."""
    held: list[tuple[bytes, Sequence[Bytes]]] = []

    def spoil(
        header: bytes, frames: Sequence[Bytes]
    ) -> list[tuple[bytes, Sequence[Bytes]]]:
        late, held[:] = held[:], []
        if source.random() >= SHARE:
            return [(header, frames), *late]
        fault = source.choice(["lose", "double", "hold", "flip", "garbage"])
        if fault == "hold":
            held.append((header, frames))
            return late
        if fault == "double":
            return [(header, frames), (header, frames), *late]
        if fault == "flip" and frames:
            at = source.randrange(frames[-1].size)
            return [(header, flipped(frames, at)), *late]
        if fault == "garbage":
            return [(header[:-1], frames), *late]
        return late

    return spoil


class Storm:
    """Four engines, and requests on their way from one to another."""

    def __init__(self, make_engine: MakeEngine, mode: str) -> None:
        self.mode = mode
        self.source = random.Random(11)  # noqa: S311 - a test
        both = [make_engine(mode=mode) for _ in range(4)]
        self.engines = [engine for engine, _ in both]
        self.wires = [wire for _, wire in both]
        for wire in self.wires:
            wire.spoil = stormy(self.source)
        self.prefilling: list[tuple[DrivenEngine, int, int, list[int]]] = []
        self.decoding: list[tuple[DrivenEngine, int, list[int]]] = []
        self.cut: Timing | None = None

    @property
    def is_over(self) -> bool:
        return not self.prefilling and not any(
            each.core.has_work for each in self.engines
        )

    def prefill(self) -> None:
        """A request comes."""
        pick = self.source
        prompt = [pick.randrange(3, 1000) for _ in range(pick.randint(5, 60))]
        producer, consumer = self.engines[pick.randrange(2)], pick.randint(2, 3)
        params = PREFILL
        if self.mode == "push":
            address = self.wires[consumer].address
            assert address is not None
            to = {"remote_host": address.host, "remote_port": address.port}
            params = PREFILL | to
        request = producer.add(prompt, 1, params)
        self.prefilling.append((producer, request, consumer, prompt))

    def pass_on(self) -> None:
        """Those that were prefilled are to be decoded."""
        for entry in list(self.prefilling):
            producer, request, index, prompt = entry
            if request not in producer.ended:
                continue
            self.prefilling.remove(entry)
            told = producer.ended[request].sections.get(KV_TRANSFER)
            assert told is None or isinstance(told, dict)
            consumer = self.engines[index]
            self.decoding.append((consumer, consumer.add(prompt, 5, told), prompt))

    def blow(self) -> None:
        """Engines are cut off for a while, and clients go."""
        if self.source.random() < 0.002:
            self.source.choice(self.wires).is_cut = True
            self.cut = self.engines[0].pace.stopwatch()
        if self.cut is not None and self.cut.took().seconds > 0.2:
            for wire in self.wires:
                wire.is_cut = False
        if self.decoding and self.source.random() < 0.02:
            consumer, request, _ = self.source.choice(self.decoding[-4:])
            consumer.abort(request)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["pull", "push"])
def test_all_requests_end_rightly(make_engine: MakeEngine, mode: str) -> None:
    """Under aborts and partitions no token is wrong and no block or request is left."""
    storm, coming = Storm(make_engine, mode), NUM_REQUESTS
    deadline = Deadline(60)
    while coming or not storm.is_over:
        assert deadline.is_ahead
        if coming and len(storm.prefilling) < 8:
            storm.prefill()
            coming -= 1
        have_worked = [each.turn() for each in storm.engines]
        storm.pass_on()
        storm.blow()
        if not any(have_worked):
            storm.engines[0].pace.wait()

    found = rest(storm.engines)
    alone, _ = make_engine()
    ids = [alone.add(prompt, 5) for _, _, prompt in storm.decoding]
    rest([alone])
    assert len(ids) == NUM_REQUESTS
    for (consumer, request, _), own in zip(storm.decoding, ids, strict=True):
        tokens, right = consumer.tokens[request], alone.tokens[own]
        is_cut_short = consumer.ended[request].reason is FinishReason.ABORT
        assert tokens == (right[: len(tokens)] if is_cut_short else right)
    assert sum(transfers_of(each).external_cache.hit_tokens for each in found) > 1000
    reasons = {
        reason
        for stats in found
        for by_reason in transfers_of(stats).failures.values()
        for reason in by_reason
    }
    assert reasons & {"checksum", "staging_checksum"}  # there was a storm
