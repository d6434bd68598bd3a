"""`hookline replay`: what it tells of recordings, and of files that are none."""

import subprocess
import sys
from io import BytesIO
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from hookline_recording import read_header
from hookline_recording.frames import frames
from hookline_recording.scheduling import Scheduling
from hookline_recording.schema import (
    FRAME,
    HEADER_BYTES,
    MAGIC,
    MARK,
    PREFIX,
    VERSION,
    Header,
    Planned,
    decoded,
)
from hookline_replay.replay_command import run
from hookline_server.cli.errors import CommandFailedError, UsageError
from hookline_testing.replay_corpus.__main__ import CORPUS

KEPT = CORPUS / "preemption.rec"


def with_header(path: Path, header: Header) -> Path:
    """Writes the kept recording with another header."""
    body = msgspec.msgpack.encode(header)
    prefix = PREFIX.pack(MAGIC, VERSION, len(body), crc32(body))
    data = KEPT.read_bytes()
    path.write_bytes((prefix + body).ljust(HEADER_BYTES, b"\0") + data[HEADER_BYTES:])
    return path


def changed_header(path: Path, **changes: object) -> Path:
    """Writes the kept recording with a changed header."""
    return with_header(path, msgspec.structs.replace(read_header(KEPT), **changes))


def changed_plan(path: Path, step: int, **changes: object) -> Path:
    """Writes the kept recording with another plan of a step, in a whole frame."""
    data = bytearray(KEPT.read_bytes()[:HEADER_BYTES])
    for number, _, body in frames(BytesIO(KEPT.read_bytes())):
        record = decoded(body)
        written = body
        if isinstance(record, Planned) and record.step == step:
            changed = msgspec.structs.replace(record, **changes)
            written = msgspec.msgpack.encode(changed)
        checksum = crc32(written, number & 0xFFFFFFFF)
        data += FRAME.pack(MARK, len(written), number, checksum) + written
    path.write_bytes(data)
    return path


def test_a_recording_is_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    """A line tells how much of it."""
    assert run([str(KEPT), "--strict"]) == 0

    told = capsys.readouterr().out
    assert "359 steps of 40 requests repeated: 723 decisions as recorded" in told


def test_the_first_difference_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With step, request, both values and what limited the step."""
    path = changed_plan(tmp_path / "changed.rec", 20, num_tokens=[1, 1, 5])

    status = run([str(path), "--strict"])

    told = capsys.readouterr().out
    assert status == 1
    assert "first difference at step 20, request" in told
    assert "recorded: 5" in told or "recorded: [" in told
    assert "KV blocks in use" in told
    assert run([str(path)]) == 0


def test_another_version_is_repeated_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its decisions may differ for that reason."""
    path = changed_header(tmp_path / "old.rec", hookline="0.0.1", wire_version=3)

    assert run([str(path), "--strict"]) == 0

    told = capsys.readouterr().out
    assert "note: it is of Hookline 0.0.1 (commands 3)" in told


def test_a_replay_stops_after_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    """And not at the recording's end."""
    run([str(KEPT), "--until", "40"])

    assert "40 steps of" in capsys.readouterr().out


def test_a_debugger_opens_before_a_step() -> None:
    """It reads the terminal, and has the engine at hand."""
    command = "from hookline_server.cli import main; main()"
    asked = [sys.executable, "-c", command, "replay", str(KEPT)]

    done = subprocess.run(
        [*asked, "--until", "40", "--break"],
        input="p 'requests', len(scheduler.requests), 'step', step\nc\n",
        capture_output=True,
        text=True,
        check=True,
    )

    assert "before step 40: 2 running, 7 waiting" in done.stdout
    assert "('requests', 9, 'step', 40)" in done.stdout


def test_no_torch_is_imported() -> None:
    """Replaying needs neither a model nor what computes one."""
    code = (
        "import sys\n"
        "from hookline_replay.replay_command import run\n"
        f"run([{str(KEPT)!r}])\n"
        f"run([{str(CORPUS / 'pipeline.rec')!r}])\n"
        "print({'torch', 'transformers', 'numpy'} & set(sys.modules))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.endswith("set()\n")


def scheduling(**changes: object) -> bytes:
    """Returns the kept recording's scheduling with changes."""
    kept = msgspec.msgpack.decode(read_header(KEPT).scheduling, type=Scheduling)
    return msgspec.msgpack.encode(msgspec.structs.replace(kept, **changes))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scheduling": b""}, "have no options of the scheduler: record again"),
        ({"scheduling": b"\xc1"}, "its header is damaged"),
        ({"content": "none"}, "it has no hashes of prompts"),
        ({"scheduling": scheduling(num_kv_blocks=1 << 60)}, "cannot be repeated"),
        ({"scheduling": scheduling(num_kv_blocks=1)}, "the KV cache's 1 blocks"),
        ({"scheduling": scheduling(scheduler={"max_num_seqs": "x"})}, "scheduling: "),
        ({"block_size": 0}, "cannot be repeated"),
    ],
)
def test_a_header_that_does_not_do_is_refused(
    changes: dict[str, object], told: str, tmp_path: Path
) -> None:
    """Each with its own error, also one of a hostile file."""
    path = changed_header(tmp_path / "bad.rec", **changes)

    with pytest.raises(CommandFailedError, match=told):
        run([str(path)])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "not a recording of Hookline"),
        (b"{}" * 20_000, "not a recording of Hookline"),
        (b"\x80\x04\x95" + bytes(20_000), "not a recording of Hookline"),
        (KEPT.read_bytes()[:9000], "not a recording of Hookline"),
        (KEPT.read_bytes()[:HEADER_BYTES], "it has no records"),
        (
            KEPT.read_bytes()[:20_000] + b"??" + KEPT.read_bytes()[20_002:],
            "1 of its records are damaged or missing",
        ),
    ],
)
def test_a_file_that_is_no_recording_is_refused(
    content: bytes, told: str, tmp_path: Path
) -> None:
    """Empty, foreign, truncated or damaged: each with one error."""
    path = tmp_path / "file.rec"
    path.write_bytes(content)

    with pytest.raises(CommandFailedError, match=told):
        run([str(path)])


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(CommandFailedError, match=r"nothing\.rec: No such file"):
        run([str(tmp_path / "nothing.rec")])


def test_a_cut_recording_is_repeated_as_far_as_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine may have been killed while it wrote."""
    path = tmp_path / "cut.rec"
    path.write_bytes(KEPT.read_bytes()[:30_001])

    assert run([str(path), "--strict"]) == 0

    assert "decisions as recorded" in capsys.readouterr().out


def test_a_plan_of_unknown_requests_ends_in_one_error(tmp_path: Path) -> None:
    """Whatever a hostile file has the engine do."""
    path = changed_plan(tmp_path / "odd.rec", 9, request_ids=[77, 78], num_tokens=None)

    assert run([str(path), "--strict"]) == 1


@pytest.mark.parametrize(
    "given", [["a", "--break"], ["a", "b", "--until", "3"]], ids=["break", "until"]
)
def test_options_that_do_not_go_together_are_refused(given: list[str]) -> None:
    """With what they need."""
    with pytest.raises(UsageError):
        run(given)
