"""Engines that share experts compute steps of one number together."""

import select
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from hookline.stats.step_work import NO_RANKS, RankUse
from hookline_ranks.experts.lockstep import Lockstep
from hookline_testing.sharing_engines import expert_links


@dataclass
class Engine:
    """One engine; its dummy steps are only counted."""

    dummies: int = 0
    lockstep: Lockstep = field(init=False)

    def compute(self) -> RankUse:
        self.dummies += 1
        return NO_RANKS

    @property
    def is_rung(self) -> bool:
        return bool(select.select([self.lockstep.bell], [], [], 0)[0])


@contextmanager
def engines(count: int) -> Iterator[list[Engine]]:
    made = [Engine() for _ in range(count)]
    with expert_links(count) as links:
        for each, own in zip(made, links, strict=True):
            each.lockstep = Lockstep(own, each.compute)
        yield made


def test_who_has_no_work_follows_step_by_step() -> None:
    """It is rung for, computes as many dummy steps, and then none."""
    with engines(2) as (first, second):
        for _ in range(3):
            first.lockstep.start_step()
        is_rung = second.is_rung
        second.lockstep.hear()
        followed = [second.lockstep.assist() is not None for _ in range(4)]

        assert (first.is_rung, is_rung, second.is_rung) == (False, True, False)
        assert followed == [True, True, True, False]
        assert second.dummies == 3
        assert first.lockstep.assist() is None


def test_steps_of_both_are_one() -> None:
    """Who has work needs no dummy step for what others have begun."""
    with engines(2) as (first, second):
        first.lockstep.start_step()
        second.lockstep.start_step()

        assert first.lockstep.assist() is None
        assert second.lockstep.assist() is None
        second.lockstep.start_step()
        assert second.lockstep.assist() is None
        assert first.lockstep.assist() is not None


def test_who_is_ahead_rings_nobody_who_is_as_far() -> None:
    """A bell that rings for nothing would wake an idle engine."""
    with engines(3) as (first, second, third):
        first.lockstep.start_step()
        for each in (second, third):
            each.lockstep.hear()
        second.lockstep.start_step()

        assert (first.is_rung, second.is_rung, third.is_rung) == (False, False, True)


def test_engines_rest_together() -> None:
    """Nobody sleeps while another may begin a step, which needs all of them."""
    with engines(2) as (first, second):
        assert not first.lockstep.rest()
        second.lockstep.start_step()
        assert first.lockstep.assist() is not None
        second.lockstep.hear()
        assert second.lockstep.rest()
        assert first.is_rung
        assert first.lockstep.rest()
        second.lockstep.rise()
        assert not first.lockstep.rest()


def test_engines_wait_until_all_have_loaded() -> None:
    """Steps before would wait for models that are being loaded."""
    with engines(2) as (first, second):
        waiting = Thread(target=first.lockstep.wait_for_others)
        waiting.start()
        waiting.join(0.05)
        was_waiting = waiting.is_alive()
        second.lockstep.wait_for_others()
        waiting.join(20)

        assert was_waiting
        assert not waiting.is_alive()


def test_each_engine_has_its_own_count() -> None:
    """In memory without a name, which all of them map."""
    with expert_links(2) as links:
        first, second = (Lockstep(each, Engine().compute) for each in links)
        first.start_step()

        assert second.assist() is not None
        memory = Path(f"/proc/self/fd/{links[0].steps}").readlink()
        assert str(memory).startswith("/memfd:")
