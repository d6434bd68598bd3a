"""Puts the tests that take longest at the beginning of each process's part.

They mostly wait, and one that is among the last has the others wait for it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

LONG = (
    "test_warm_up_command.py",
    "test_structured_bombs.py",
    "test_public_clients.py",
    "test_two_machines.py",
    "test_api_server_deaths.py",
    "test_installations.py",
    "test_payload_mutation.py",
    "test_containers.py",
    "test_dead_ranks.py",
    "test_live_browser.py",
    "test_stage_ranks.py",
    "test_tensor_parallel.py",
    "test_one_of_several_engines.py",
    "test_hung_engine.py",
    "test_dashboard_coverage.py",
    "test_engines_with_common_experts.py",
    "test_scaling_api_servers.py",
    "test_remote_api_servers.py",
    "test_proxy_demo.py",
    "test_topologies.py",
)
"""Modules of tests that take more than half a minute together, the longest first."""


class _Test(Protocol):
    @property
    def path(self) -> Path: ...


T = TypeVar("T", bound=_Test)


def long_first(tests: Sequence[T], processes: int) -> list[T]:
    """Returns the tests in an order for processes that begin with equal parts of it.

    Args:
        tests: All tests.
        processes: The number of processes.
    """
    by_module = [[test for test in tests if test.path.name == name] for name in LONG]
    others = [test for test in tests if test.path.name not in LONG]
    ordered: list[T] = []
    for process in range(processes):
        missing = process * len(tests) // processes - len(ordered)
        ordered += others[: max(0, missing)]
        del others[: max(0, missing)]
        for module in by_module[process::processes]:
            ordered += module
    return ordered + others
