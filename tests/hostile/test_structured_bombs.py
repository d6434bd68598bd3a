"""Grammars and tools that are built to explode: each is refused, and nobody waits."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hookline_faults.hostile.grammar_bombs import BOMBS, COMPLETIONS, FREE
from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}},
    "required": ["name"],
}
LENGTHS = {
    "type": "object",
    "properties": {
        f"k{each}": {"type": "string", "maxLength": 10**9} for each in range(8)
    },
}
STRICT = {**FREE, "max_tokens": 200, "guided_json": PERSON}
MAX_COMPILER_MB = 400
"""Of a compiling process between two grammars; a bomb may take a gigabyte."""

HARMLESS: dict[str, dict[str, Any]] = {
    "left recursion": {"guided_grammar": 'root ::= root "a" | "b"'},
    "mutual recursion": {
        "guided_grammar": 'root ::= a\na ::= b | "x" a\nb ::= c | a\nc ::= a | "y"'
    },
    "empty loops": {"guided_grammar": 'root ::= ("" | "")* "a" ""*'},
    "doubling references": {
        "guided_json": {
            "$ref": "#/$defs/d0",
            "$defs": {
                **{
                    f"d{index}": {"anyOf": [{"$ref": f"#/$defs/d{index + 1}"}] * 2}
                    for index in range(20)
                },
                "d20": {"type": "boolean"},
            },
        }
    },
    "text without end": {"guided_grammar": 'root ::= [a-c]{3} s\ns ::= "a" s'},
    "doubling text": {
        "guided_grammar": "root ::= [a-c]{3} s0\n"
        + "".join(f"s{each} ::= s{each + 1} s{each + 1}\n" for each in range(40))
        + 's40 ::= "a"'
    },
    "backtracking": {"guided_regex": "((x+x+)+|(a|aa)+|(a*)*)+y"},
    "classes": {"guided_regex": r"(\w{1,5000}\d{1,5000}){1,500}"},
    "lengths": {"guided_json": LENGTHS},
    "large values": {"guided_json": {"enum": [f"value{each}" for each in range(4000)]}},
}
"""They look alike, and are served, some by llguidance; some have no end to reach."""


@contextmanager
def ready_for_grammars(*options: str) -> Iterator[Server]:
    argv = ("--port=0", "--model=demo", "--num-kv-blocks=512", *options)
    with serving(*argv) as running:
        assert running.post(COMPLETIONS, STRICT)[0] == 200  # starts the process
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with ready_for_grammars() as running:
        yield running


@pytest.fixture(scope="module")
def patient_server() -> Iterator[Server]:
    """Has a compiler that takes grammars however slow a trial of them is here."""
    limits = '--structured-outputs-config={"compile_seconds": 10}'
    with ready_for_grammars(limits) as running:
        yield running


@contextmanager
def others_served(server: Server) -> Iterator[None]:
    """Clients that send requests with and without a grammar, and ask for the health."""
    ends, statuses = threading.Event(), dict.fromkeys(("free", "strict", "health"), 0)
    errors: list[object] = []

    def serve(name: str) -> None:
        while not ends.wait(0.02) or not statuses[name]:
            if name == "health":
                status, body = server.get("/health")
            else:
                status, body = server.post(
                    COMPLETIONS, FREE if name == "free" else STRICT
                )
            statuses[name] += 1
            if status != 200:
                errors.append(body)

    threads = [threading.Thread(target=serve, args=(name,)) for name in statuses]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    assert not errors
    assert min(statuses.values()) >= 1


def compilers_of(server: Server) -> tuple[int, int]:
    """Process ids of the compiling process, and of the fork of it that compiles."""
    parents = {
        int(path.parent.name): int(path.parent.joinpath("stat").read_text().split()[3])
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if b"hookline_grammars.process" in _read(path)
    }
    [process] = [pid for pid, parent in parents.items() if parent == server.engine_pid]
    [fork] = [pid for pid, parent in parents.items() if parent == process]
    return process, fork


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_and_others_are_served(server: Server, name: str) -> None:
    """
    The error names the client's field; other requests and the health go on, and what
    compiles afterwards is small.
    """
    bomb = BOMBS[name]

    with others_served(server):
        status, answer = server.post(bomb.path, bomb.body)

    assert status == 400
    error = answer["error"]
    assert error["param"] == bomb.field
    assert error["code"] in {"invalid_grammar", "limit_exceeded"}
    assert len(error["message"]) < 1500
    other = {**STRICT, "guided_json": {"const": name}}
    assert server.post(COMPLETIONS, other)[0] == 200
    assert max(map(server.resident_mb, compilers_of(server))) < MAX_COMPILER_MB


@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_looks_like_a_bomb_is_served(server: Server, name: str) -> None:
    """
    Recursion and doubling are no reason to refuse a grammar.
    """
    status, answer = server.post(
        COMPLETIONS, {**FREE, "max_tokens": 50, **HARMLESS[name]}
    )

    assert status == 200, answer


def test_a_bomb_ends_the_fork_that_compiles(server: Server) -> None:
    """
    The next grammar gets another one of the same process, which has all imports.
    """
    process, fork = compilers_of(server)
    body = {**FREE, "guided_regex": "((a{1,99}){1,99}){1,98}b*c"}

    status, answer = server.post(COMPLETIONS, body)

    assert (status, answer["error"]["code"]) == (400, "invalid_grammar")
    assert (
        "xgrammar: compiling it takes more than 0.35 s of processor time"
        in answer["error"]["message"]
    )
    assert server.post(COMPLETIONS, {**FREE, "guided_regex": "after|it"})[0] == 200
    assert compilers_of(server)[0] == process
    assert compilers_of(server)[1] != fork
    assert not os.path.exists(f"/proc/{fork}")  # noqa: PTH110 - a process


SLOW = {
    **FREE,
    "guided_grammar": 'root ::= x*\nx ::= y*\ny ::= "a"*',
    "max_tokens": 1000,
    "ignore_eos": True,
}


def test_an_output_that_becomes_slow_is_a_400(patient_server: Server) -> None:
    """
    Also where eight of them do so together.
    """
    with others_served(patient_server):
        status, answer = patient_server.post(COMPLETIONS, {**SLOW, "n": 8})

    assert status == 400
    error = answer["error"]
    assert (error["code"], error["param"]) == ("invalid_grammar", "guided_grammar")
    assert "too much processor time for this output" in error["message"]


def test_a_stream_that_becomes_slow_ends_with_the_error(
    patient_server: Server,
) -> None:
    """
    As an event, after the text so far.
    """
    connection, response = patient_server.stream(COMPLETIONS, {**SLOW, "stream": True})
    text = response.read().decode()
    connection.close()

    assert response.status == 200
    assert '"code":"invalid_grammar"' in text.replace(" ", "")
    assert "too much processor time for this output" in text
