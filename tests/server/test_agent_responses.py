"""Requests that agents have sent to `/v1/responses` get the answers that they expect.

`agents/responses/*.json` has requests as agents sent them, shortened, and says where
they come from. `agents/responses/*.txt` has what became of each: what the chat template
got, what was left out, and the answer, whole and streamed. Run this file with
`HOOKLINE_UPDATE_GOLDEN=1` to accept new ones.
"""

import json
import re
from pathlib import Path
from typing import Any

from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.golden import check_golden
from hookline_testing.response_exchange import Exchange, exchanged

FOLDER = Path(__file__).parent / "agents/responses"
SETTINGS = ServerSettings(
    replies=ReplySettings(tool_call_parser="hermes", reasoning_parser="qwen3")
)
IDS = re.compile(r"\b(msg|fc|ctc|tsc|rs|call|resp)_[0-9a-f]{24,}")
TIMES = re.compile(r'"(created_at|completed_at)": \d+')
PIECE = 7
"""Characters of the model's text in each step."""


async def test_answers_to_agents_are_golden() -> None:
    """
    Each request is served, and nothing that the client needs is different from before.
    """
    faults = []
    for path in sorted(FOLDER.glob("*.json")):
        for number, case in enumerate(json.loads(path.read_text("utf-8"))["cases"]):
            told = await transcript(case["request"], case["reply"])
            try:
                check_golden(FOLDER / f"{path.stem}_{number}.txt", told)
            except AssertionError as error:
                faults.append(str(error))

    assert not faults, "\n\n".join(faults)


def test_every_transcript_has_its_request() -> None:
    """
    Files say where requests come from, and no transcript is left of another.
    """
    expected = set()
    for path in FOLDER.glob("*.json"):
        recorded = json.loads(path.read_text("utf-8"))
        assert recorded["source"]
        expected |= {f"{path.stem}_{n}" for n in range(len(recorded["cases"]))}

    assert {path.stem for path in FOLDER.glob("*.txt")} == expected
    assert expected


async def transcript(request: dict[str, Any], reply: str) -> str:
    """What became of a request, as text, with ids and times masked."""
    pieces = [reply[at : at + PIECE] for at in range(0, len(reply), PIECE)]
    whole = await answered({**request, "stream": False}, pieces)
    streamed = await answered({**request, "stream": True}, pieces)
    assert unnumbered(whole.answer) == unnumbered(streamed.answer)
    parts = {
        "messages": whole.messages,
        "functions": [*whole.functions.values()],
        "left out": whole.ignored,
        "response": whole.answer,
        "events": [briefly(event) for event in streamed.events],
    }
    texts = [
        f"== {name} ==\n{json.dumps(value, indent=1, ensure_ascii=False)}\n"
        for name, value in parts.items()
    ]
    return unnumbered("\n".join(texts))


async def answered(request: dict[str, Any], pieces: list[str]) -> Exchange:
    got = await exchanged(request, *pieces, settings=SETTINGS)
    assert got.status == 200, got.answer
    return got


def unnumbered(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return TIMES.sub(r'"\1": 0', IDS.sub(r"\1_…", text))


def briefly(event: dict[str, Any]) -> str:
    """An event's type, its place, and what it adds."""
    shown = [event["type"]]
    shown += [str(event[name]) for name in ("output_index", "item_id") if name in event]
    if "item" in event:
        shown.append(json.dumps(event["item"], ensure_ascii=False))
    if "delta" in event:
        shown.append(json.dumps(event["delta"], ensure_ascii=False))
    return " ".join(shown)
