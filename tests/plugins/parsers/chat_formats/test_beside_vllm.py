"""What vLLM's parsers make of the same replies, and which of both is right.

It runs where `HOOKLINE_VLLM_PYTHON` names a Python that has vLLM 0.32; its Python files
and their dependencies suffice.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from .formats import REPLIES, TOOLS, read_reply
from .known_differences import DIFFERENCES

PYTHON = "HOOKLINE_VLLM_PYTHON"
PROGRAM = Path(__file__).parent / "read_with_vllm.py"
SECONDS = 600

pytestmark = pytest.mark.skipif(PYTHON not in os.environ, reason=f"{PYTHON} is not set")


def found_by_vllm(cases: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Returns what vLLM finds in each text of a format."""
    given = {
        "tools": TOOLS.tools,
        "cases": [
            {"tool": name, "reasoning": None, "template": {}, "text": text}
            for name, text in cases
        ],
    }
    program = [os.environ.get(PYTHON, sys.executable), str(PROGRAM)]
    ended = subprocess.run(
        program,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(ended.stdout.splitlines()[-1])
    return found


def spoken(content: str, calls: list[Any]) -> tuple[str, list[tuple[str, Any]]]:
    """Returns what a reply says, whatever its white space and JSON's spelling are."""
    return " ".join(content.split()), [
        (name, parsed(arguments)) for name, arguments in calls
    ]


def parsed(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return f"no JSON: {arguments}"


def differences(
    cases: list[tuple[str, str]], found: list[dict[str, Any]]
) -> Mapping[tuple[str, str], str]:
    """Returns what vLLM says where it says something else."""
    differing = {}
    for (name, text), theirs in zip(cases, found, strict=True):
        ours = read_reply(text, tool=name)
        if "error" in theirs:
            if not theirs["error"].startswith("TypeError: tool_parser_name"):
                differing[name, text] = theirs["error"]
            continue
        said = spoken(theirs["content"], theirs["calls"])
        if said != spoken(ours.content, ours.calls):
            differing[name, text] = json.dumps(said, ensure_ascii=False)
    return differing


def test_only_known_replies_are_read_otherwise() -> None:
    """Each difference is in the table, which says who is right."""
    cases = list(dict.fromkeys((name, text) for name, text, *_ in REPLIES))

    found = differences(cases, found_by_vllm(cases))

    unknown = {
        f"{name}: {text}": said
        for (name, text), said in found.items()
        if (name, text) not in DIFFERENCES
    }
    assert not unknown
    assert not [each for each in DIFFERENCES if each not in found]
