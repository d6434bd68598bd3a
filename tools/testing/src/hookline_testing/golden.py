"""Golden files: what something looked like when it was last looked at by a person.

With `HOOKLINE_UPDATE_GOLDEN=1`, tests write these files instead of comparing them.
"""

import difflib
import os
from pathlib import Path

UPDATE = "HOOKLINE_UPDATE_GOLDEN"
_MOST_LINES = 60


def is_updating() -> bool:
    """Whether golden files are to be written."""
    return os.environ.get(UPDATE, "") not in {"", "0"}


def check_golden(path: Path, text: str) -> None:
    """Compares a text with a golden file, or writes the file.

    Raises:
        AssertionError: They differ; the message has the first lines of the difference
            and the command that accepts it.
    """
    if is_updating():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return
    golden = path.read_text("utf-8") if path.exists() else ""
    if golden == text:
        return
    compared = difflib.unified_diff(
        golden.splitlines(), text.splitlines(), "golden", "now", n=1, lineterm=""
    )
    lines = list(compared)
    shown = "\n".join(lines[:_MOST_LINES])
    left = max(0, len(lines) - _MOST_LINES)
    raise AssertionError(
        f"{path.name} differs from what it was:\n{shown}\n"
        f"({left} more lines.) If this is what you want, run this test again with "
        f"{UPDATE}=1 in the environment and commit the file."
    )
