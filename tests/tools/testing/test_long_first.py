"""Long tests are the first of each process."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from hookline_testing.long_first import LONG, long_first


@dataclass(frozen=True)
class Named:
    """A test in a module."""

    path: Path
    number: int


@pytest.mark.parametrize("processes", [1, 2, 5, 30])
def test_each_part_begins_with_long_tests(processes: int) -> None:
    """None is left out, and each module stays together, in its order."""
    names = [f"test_{number}.py" for number in range(200)]
    tests = [Named(Path(each), at) for each in names for at in range(40)]
    tests[:0] = [Named(Path("folder", each), at) for each in LONG for at in range(3)]

    ordered = long_first(tests, processes)

    assert sorted(ordered, key=tests.index) == tests
    for process in range(min(processes, len(LONG))):
        begin = process * len(tests) // processes
        assert ordered[begin].path.name == LONG[process]
    for name in LONG:
        numbers = [each.number for each in ordered if each.path.name == name]
        assert numbers == [0, 1, 2]


def test_all_long_modules_exist() -> None:
    """One that was renamed would be among the last again."""
    folder = Path(__file__).parents[2]
    assert [name for name in LONG if not [*folder.rglob(name)]] == []
