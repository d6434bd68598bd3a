"""A comparison that is continued in its folder."""

from pathlib import Path

import pytest
from compare_isa import Isa
from compare_record import Record, RecordError


def measured(folder: Path, isa: Isa | None) -> Record:
    record = Record.of(folder, isa, resume=False)
    record.add("latency-90m-1", "hookline", {"output tok/s": 100.0})
    record.note("no quotas")
    record.save({"processor": "any"})
    return record


@pytest.mark.parametrize("isa", [None, Isa.AVX2])
def test_runs_are_continued(tmp_path: Path, isa: Isa | None) -> None:
    """A record that is resumed has all runs, notes and the time of the first run."""
    first = measured(tmp_path, isa)

    second = Record.of(tmp_path, isa, resume=True)
    second.note("no quotas")

    assert second == first
    assert "no quotas" in (tmp_path / "compare.md").read_text()


def test_a_new_record_is_empty(tmp_path: Path) -> None:
    """Without resuming, the folder's runs do not count."""
    measured(tmp_path, None)

    assert Record.of(tmp_path, None, resume=False).runs == {}


def test_instruction_sets_are_not_mixed(tmp_path: Path) -> None:
    """Runs of one instruction set are not continued with another."""
    measured(tmp_path, Isa.AVX2)

    with pytest.raises(RecordError, match="measured with --isa avx2"):
        Record.of(tmp_path, None, resume=True)
