"""The owner of engines that share experts gives each set of processes its memory."""

import os
from pathlib import Path

from hookline.transport.engine_client import EngineDied
from hookline_cluster.expert_memory import ExpertMemory
from hookline_ranks.experts.links import ExpertLinks


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def start(memory: ExpertMemory, index: int) -> tuple[ExpertLinks, int]:
    """Starts a process; returns its links, and which memory it has."""
    links = memory.links(index)
    assert links is not None
    inode = os.fstat(links.steps).st_ino
    memory.started()
    return links, inode


def test_all_engines_get_the_same_memory() -> None:
    """The owner keeps none of it once all have inherited it."""
    before = descriptors()
    memory = ExpertMemory([1, 0, 2])

    found = [start(memory, index) for index in (0, 1, 2)]

    assert [links.index for links, _ in found] == [0, 1, 2]
    assert len({inode for _, inode in found}) == 1
    assert found[0][0].num_engines == 3
    assert descriptors() == before


def test_engines_that_share_nothing_get_none() -> None:
    """And no other engine ends with them."""
    memory = ExpertMemory([])

    assert memory.links(0) is None
    memory.started()
    assert memory.ended(EngineDied(0, "it fell")) == []
    assert memory.take_reason(1) is None


def test_all_end_with_one_and_get_new_memory() -> None:
    """Each of the others says which engine was the reason; once."""
    memory = ExpertMemory([0, 1, 2])
    old = start(memory, 0)[1]
    for index in (1, 2):
        start(memory, index)

    peers = memory.ended(EngineDied(1, "it fell"))
    reasons = [memory.take_reason(index) for index in (0, 1, 2, 0)]
    more = [memory.ended(EngineDied(index, "killed")) for index in peers]
    new = {start(memory, index)[1] for index in (2, 1, 0)}

    reason = "engine 1, which shares its experts, has ended: it fell"
    assert peers == [0, 2]
    assert reasons == [reason, None, reason, None]
    assert more == [[2], []]
    assert len(new) == 1
    assert old not in new


def test_a_late_death_does_not_end_the_replacements() -> None:
    """The old process of engine 1 is seen to end when engine 0 is replaced already."""
    memory = ExpertMemory([0, 1])
    for index in (0, 1):
        start(memory, index)

    memory.ended(EngineDied(0, "it fell"))
    first = start(memory, 0)[1]
    peers = memory.ended(EngineDied(1, "killed"))
    second = start(memory, 1)[1]

    assert peers == []
    assert first == second
    memory.close()


def test_a_replacement_that_cannot_start_ends_those_that_start() -> None:
    """Also one that has not begun yet gets memory of the next try."""
    before = descriptors()
    memory = ExpertMemory([0, 1])
    for index in (0, 1):
        start(memory, index)
    for index in (0, 1):
        memory.ended(EngineDied(index, "it fell"))

    failed = start(memory, 0)[1]
    peers = memory.ended(EngineDied(0, "no memory"))
    others = [start(memory, index)[1] for index in (1, 0)]
    memory.close()

    assert peers == []
    assert others[0] == others[1] != failed
    assert descriptors() == before
