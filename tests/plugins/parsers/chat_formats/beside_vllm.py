"""Holds the parsers beside vLLM's on the replies of the tables.

usage, in tests/plugins/parsers, with HOOKLINE_VLLM_PYTHON set:
python -m chat_formats.beside_vllm
"""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .formats import REPLIES, TOOLS, Reply
from .newer_cases import NEWER_SLIPS

PYTHON = "HOOKLINE_VLLM_PYTHON"
"""Names a Python that has vLLM 0.32; its Python files and what they import suffice."""

TABLE = Path(__file__).with_suffix(".toml")
PROGRAM = Path(__file__).with_name("read_with_vllm.py")
SECONDS = 900
ALSO = {
    "cohere_command4": "cohere_command3",
    "hy_v3": "hy_v4",
    "ling3": "glm45",
    "poolside_v1": "glm45",
}
"""Names of the same parsers that vLLM has others for."""

UNREAD = ("NotImplementedError", "RuntimeError")
"""What vLLM's parsers raise that need their model's tokenizer, or are stubs."""

Difference = Mapping[str, str]


def cases() -> list[tuple[str, str]]:
    """Returns vLLM's name of a format and a text, for each of the tables' replies."""
    rows = [(name, text) for name, text, *_ in (*REPLIES, *NEWER_SLIPS)]
    rows += [
        (other, text)
        for other, name in ALSO.items()
        for each, text in rows
        if each == name
    ]
    return list(dict.fromkeys(rows))


def found_by_vllm(rows: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Returns what vLLM finds in each text of a format."""
    given = {
        "tools": TOOLS.tools,
        "cases": [{"tool": name, "text": text} for name, text in rows],
    }
    ended = subprocess.run(
        [os.environ.get(PYTHON, sys.executable), str(PROGRAM)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(ended.stdout.splitlines()[-1])
    return found


def differences() -> list[Difference]:
    """Returns the replies of which vLLM says something else, and what both say."""
    rows = cases()
    found: list[Difference] = []
    for (name, text), theirs in zip(rows, found_by_vllm(rows), strict=True):
        said = Reply(tool=ALSO.get(name, name)).read([text])
        ours = _said(said.content, said.calls)
        other = theirs.get("error") or _said(theirs["content"], theirs["calls"])
        if other != ours and not other.startswith(UNREAD):
            row = {"format": name, "text": text, "vllm": other, "hookline": ours}
            found.append(row)
    return found


def known() -> list[Difference]:
    """Returns the differences of the table, each with `right`."""
    rows: list[Difference] = tomllib.loads(TABLE.read_text()).get("difference", [])
    return rows


def _said(content: str, calls: Sequence[Sequence[str]]) -> str:
    """Returns what a reply says, whatever its white space and JSON's spelling are."""
    words = "".join(content.split())
    made = [f"{name}({_plain(arguments)})" for name, arguments in calls]
    return " ".join([words, *made] if words else made)


def _plain(arguments: str) -> str:
    try:
        value = json.loads(arguments)
    except ValueError:
        return f"no JSON: {arguments}"
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def main() -> None:
    """Writes the table anew; who is right has to be judged for new rows."""
    judged = {(row["format"], row["text"]): row["right"] for row in known()}
    blocks = []
    for row in differences():
        right = judged.get((row["format"], row["text"]), "?")
        lines = [
            f"{key} = {json.dumps(value, ensure_ascii=False)}"
            for key, value in {**row, "right": right}.items()
        ]
        blocks.append("\n".join(["[[difference]]", *lines]))
    head = (
        f"# What vLLM 0.32 makes of replies otherwise; {Path(__file__).name} writes it."
    )
    TABLE.write_text("\n\n".join([head, *blocks]) + "\n")


if __name__ == "__main__":
    main()
