"""The runs of a comparison, in a folder where they can be continued."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from compare_isa import Isa
from compare_run import Result
from compare_table import fields, markdown

FILE = "compare.json"


class RecordError(Exception):
    """The folder's runs cannot be continued; the message says why."""


@dataclass(slots=True)
class Record:
    """All runs so far.

    Attributes:
        folder: Where they are kept.
        isa: The instruction set that all sides are limited to.
        began: When the first run began, in ISO 8601.
        runs: Metrics by row and side, in order of pairs; empty for a failed run.
        failures: A line for each failed run.
        notes: A line for each thing that was left out.
    """

    folder: Path
    isa: Isa | None
    began: str
    runs: dict[str, dict[str, list[Result]]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path, isa: Isa | None, *, resume: bool) -> Self:
        """Returns a new record, or the one in the folder.

        Raises:
            RecordError: The folder's runs had another instruction set.
        """
        file = folder / FILE
        if not resume or not file.is_file():
            return cls(folder, isa, datetime.now(UTC).isoformat(timespec="seconds"))
        found = json.loads(file.read_text("utf-8"))
        if found["isa"] != isa:
            raise RecordError(f"{file} was measured with --isa {found['isa']}")
        return cls(
            folder,
            isa,
            began=found["began"],
            runs=found["runs"],
            failures=found["failures"],
            notes=found["notes"],
        )

    def runs_of(self, row: str, side: str) -> list[Result]:
        return self.runs.setdefault(row, {}).setdefault(side, [])

    def add(self, row: str, side: str, result: Result) -> None:
        self.runs_of(row, side).append(result)

    def note(self, line: str) -> None:
        """Keeps a line once."""
        if line not in self.notes:
            self.notes.append(line)

    def save(self, machine: Mapping[str, object]) -> None:
        """Writes the table and all runs to the folder."""
        notes = "".join(f"\n{line}\n" for line in self.notes)
        table = markdown(self.runs, self.isa) + notes
        (self.folder / "compare.md").write_text(table, "utf-8")
        document = {
            "began": self.began,
            "machine": machine,
            "isa": self.isa,
            "comparisons": fields(self.runs, self.isa),
            "runs": self.runs,
            "failures": self.failures,
            "notes": self.notes,
        }
        text = json.dumps(document, indent=2, ensure_ascii=False)
        (self.folder / FILE).write_text(text + "\n", "utf-8")
