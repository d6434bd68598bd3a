"""The number of threads of each step, on machines as the governor finds them."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from hookline.worker.threads import governor as governing
from hookline.worker.threads.cgroup import CpuQuota
from hookline.worker.threads.governor import ThreadGovernor
from hookline.worker.threads.neighbours import Neighbours

from .conftest import write


@dataclass
class Team:
    """A team that counts nothing."""

    waited_ns: int = 0
    keeps_cores: bool = False
    native_ids: tuple[int, ...] = ()


def test_a_chosen_number_stays() -> None:
    """It is measured, but never changed."""
    team, threads = Team(waited_ns=100), torch.get_num_threads()
    governor = ThreadGovernor(team, is_fixed=True)

    governor.begin_step()
    team.waited_ns = 600
    use = governor.end_step()

    assert torch.get_num_threads() == threads
    assert (use.threads, use.barrier_wait_ns) == (threads, 500)


def test_a_closed_governor_leaves_all_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a quota of one core steps use one thread; the next engine starts anew."""
    write(tmp_path, quota="100000")
    monkeypatch.setattr(governing, "CpuQuota", lambda: CpuQuota(tmp_path))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        governor = ThreadGovernor(Team(), is_fixed=False)
        governor.begin_step()
        used = governor.end_step().threads
        during = torch.get_num_threads()
        governor.close()
        after = torch.get_num_threads()
    finally:
        torch.set_num_threads(before)

    assert (used, during, after) == (1, 1, 2)


@pytest.mark.parametrize(
    ("wanted", "quota", "expected"),
    [(1.0, None, True), (0.0, None, False), (2.0, None, False), (1.0, "100000", False)],
)
def test_threads_keep_their_cores_beside_a_neighbour(
    wanted: float,
    quota: str | None,
    expected: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where it leaves a core, and no quota keeps threads from using all of them."""
    write(tmp_path, quota=quota or "max")
    monkeypatch.setattr(governing, "CpuQuota", lambda: CpuQuota(tmp_path))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    neighbours = Neighbours()
    neighbours.wanted = wanted
    monkeypatch.setattr(governing, "Neighbours", lambda: neighbours)
    team, before = Team(), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        governor = ThreadGovernor(team, is_fixed=False)
        governor.begin_step()
        threads, kept = torch.get_num_threads(), team.keeps_cores
        governor.close()
    finally:
        torch.set_num_threads(before)

    assert (threads, kept) == (1 if quota else 2, expected)
    assert not team.keeps_cores
