"""Collects what parts of a GPU session measured in one file, and prints it as tables.

usage: python benchmarks/gpu_results.py FILE.json            prints the tables
       python benchmarks/gpu_results.py FILE.json NAME TEXT  adds a note
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COLUMNS = {
    "decode": (
        ("tok/s", "end_to_end", "{:.0f}"),
        ("steady tok/s", "steady", "{:.0f}"),
        ("step ms", "wall_ms", "{:.3f}"),
        ("device ms", "device_ms", "{:.3f}"),
        ("rest ms", "host_ms", "{:.3f}"),
        ("schedule ms", "schedule_ms", "{:.3f}"),
        ("of copy", "copy_share", "{:.0%}"),
        ("device of copy", "copy_share_of_device", "{:.0%}"),
    ),
    "prompt": (
        ("prompt tok/s", "prompt_tokens_per_second", "{:.0f}"),
        ("steps", "steps", "{:.0f}"),
        ("wall ms", "wall_ms", "{:.2f}"),
        ("device ms", "device_ms", "{:.2f}"),
        ("of product", "product_share", "{:.0%}"),
        ("device of product", "product_share_of_device", "{:.0%}"),
    ),
    "nano": (
        ("tok/s", "end_to_end", "{:.0f}"),
        ("seconds", "seconds", "{:.2f}"),
        ("device seconds", "device_seconds", "{:.2f}"),
        ("steps", "steps", "{:.0f}"),
        ("tokens a step", "tokens_per_step", "{:.0f}"),
    ),
}
Row = Mapping[str, Any]


def load(path: Path) -> dict[str, Any]:
    if path.is_file():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    return {"facts": {}, "rows": [], "notes": {}}


def add_rows(path: Path, facts: Row, rows: Sequence[Row]) -> None:
    """Adds rows to the file, and what is known of the device."""
    document = load(path)
    document["facts"].update(facts)
    document["rows"] += rows
    path.write_text(json.dumps(document, indent=1) + "\n")


def add_note(path: Path, name: str, text: str) -> None:
    document = load(path)
    document["notes"][name] = text
    path.write_text(json.dumps(document, indent=1) + "\n")


def cells(row: Row) -> list[str]:
    """Returns a row's figures as text; the error alone if there is one."""
    columns = COLUMNS[row["work"].partition("-")[0]]
    if "error" in row:
        return [row["error"], *[""] * (len(columns) - 1)]
    return [layout.format(row[key]) for _, key, layout in columns]


def print_row(row: Row) -> None:
    """Prints a row by itself, with the figure of each repeat."""
    columns = COLUMNS[row["work"].partition("-")[0]]
    if "error" in row:
        text = row["error"]
    else:
        named = zip((name for name, *_ in columns), cells(row), strict=True)
        text = ", ".join(f"{name} {value}" for name, value in named)
        text += f" (each: {', '.join(f'{value:.0f}' for value in row['all'])})"
    print(f"{row['model']} {row['work']} [{row['label']}]: {text}", flush=True)


def print_tables(document: Mapping[str, Any]) -> None:
    print(", ".join(f"{key} {value}" for key, value in document["facts"].items()))
    for kind, columns in COLUMNS.items():
        rows = [row for row in document["rows"] if row["work"].startswith(kind)]
        if not rows:
            continue
        titles = ["model", "work", "options", *(name for name, *_ in columns)]
        print(f"\n| {' | '.join(titles)} |")
        print("|---|---|---|" + "---:|" * len(columns))
        for row in rows:
            named = [row["model"], row["work"], row["label"], *cells(row)]
            print(f"| {' | '.join(named)} |")
    for name, text in document["notes"].items():
        print(f"\n{name}: {text}")


def main() -> None:
    path, *note = sys.argv[1:]
    if note:
        add_note(Path(path), note[0], " ".join(note[1:]))
    else:
        print_tables(load(Path(path)))


if __name__ == "__main__":
    main()
