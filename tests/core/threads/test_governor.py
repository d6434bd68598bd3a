"""The number of threads of each step, on machines as the governor finds them."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from hookline_host.cpu_quota import CpuQuota
from hookline_kernels.runtime.threads import governor as governing
from hookline_kernels.runtime.threads.governor import ThreadGovernor
from hookline_kernels.runtime.threads.neighbours import Neighbours

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


@pytest.fixture
def two_threads() -> Iterator[None]:
    """torch computes with two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU quota is one core."""
    write(tmp_path, quota="100000")
    monkeypatch.setattr(governing, "CpuQuota", lambda: CpuQuota(tmp_path))


@pytest.mark.usefixtures("two_threads", "one_core")
def test_threads_are_lowered_during_steps_alone() -> None:
    """Under a quota of one core steps use one thread; between them torch has all."""
    governor = ThreadGovernor(Team(), is_fixed=False)

    governor.begin_step()
    during = torch.get_num_threads()
    used = governor.end_step().threads

    assert (used, during, torch.get_num_threads()) == (1, 1, 2)


@pytest.mark.usefixtures("two_threads", "one_core")
@pytest.mark.parametrize("where", ["same thread", "new thread"])
def test_an_engine_made_during_a_step_has_all_threads(where: str) -> None:
    """It takes the number that the step has lowered, not the lowered one."""
    governor, uses = ThreadGovernor(Team(), is_fixed=False), []

    def make_another() -> None:
        other = ThreadGovernor(Team(), is_fixed=True)
        other.begin_step()
        uses.append((torch.get_num_threads(), other.end_step().threads))

    governor.begin_step()
    if where == "same thread":
        make_another()
    else:
        thread = threading.Thread(target=make_another)
        thread.start()
        thread.join()
    governor.end_step()

    assert uses == [(2, 2)]
    assert torch.get_num_threads() == 2


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
        governor.end_step()
        governor.close()
    finally:
        torch.set_num_threads(before)

    assert (threads, kept) == (1 if quota else 2, expected)
    assert not team.keeps_cores


class Restless:
    """Neighbours that want another number of cores at each look."""

    def __init__(self) -> None:
        self.wanted = 0.0

    def update(self, **_: float) -> None:
        self.wanted += 1.0

    def leave_a_core(self, _cores: int) -> bool:
        return False


@pytest.mark.usefixtures("two_threads")
def test_neighbours_are_logged_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A line each ten seconds is enough; a change of the quota has one of its own."""
    now = [1_000_000_000_000]
    clock = SimpleNamespace(monotonic_ns=lambda: now[0], process_time_ns=lambda: 0)
    monkeypatch.setattr(governing, "time", clock)
    monkeypatch.setattr(governing, "Neighbours", Restless)
    write(tmp_path, quota="max")
    monkeypatch.setattr(governing, "CpuQuota", lambda: CpuQuota(tmp_path))
    governor = ThreadGovernor(Team(), is_fixed=False)

    def seconds_pass(count: int) -> int:
        before = len(caplog.messages)
        for _ in range(count):
            now[0] += 1_000_000_000
            governor.begin_step()
            governor.end_step()
        return len(caplog.messages) - before

    with caplog.at_level("INFO", governing.__name__):
        lines = [seconds_pass(20)]
        write(tmp_path, quota="100000")
        lines.append(seconds_pass(1))

    assert lines == [2, 1]
