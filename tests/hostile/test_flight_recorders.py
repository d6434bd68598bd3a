"""Flight recorders of servers that are killed, and what signals save of them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import pytest

from hookline_recording import read_recording
from hookline_testing.own_time import Deadline
from hookline_testing.server_process import Server, engines_of, serving

pytestmark = pytest.mark.hostile

OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--num-kv-blocks", "256"),
    *("--simulated-step-seconds", "0.02", "--flight-recorder-bytes", "1MiB"),
)
MARKER = "xyzzy-marker"
PROMPT_ID = 301
CLIENTS_OWN = (
    MARKER.encode(),
    b"\xcd\x01\x2d" * 3,
    b"301,301",
    b"301, 301",
    b"\xad\x02" * 3,
)
"""A text and token ids of prompts, as recordings, pages and traces would have them."""
PAGES = ("/metrics", "/why/r", "/why/r?format=json", "/why?slowest=5", "/live/moment")
BODY = {"model": "demo", "prompt": MARKER, "max_tokens": 4, "ignore_eos": True}


def wait_until(is_true: Callable[[], object], what: str) -> None:
    deadline = Deadline(60.0)
    while not is_true():
        assert deadline.is_ahead, what
        time.sleep(0.05)


def command(*argv: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Runs `hookline` with these arguments, from outside of the server."""
    return subprocess.run(
        [sys.executable, "-m", "hookline_server", *argv],
        env={**os.environ, "TMPDIR": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )


def of_live_view(server: Server) -> str:
    """A frame that a viewer gets."""
    url = f"http://127.0.0.1:{server.port}/live/frames"
    with urlopen(url, timeout=60) as answer:
        lines: Iterator[bytes] = iter(answer)
        return next(line for line in lines if line.startswith(b"data: ")).decode()


def saved(folder: Path, reason: str) -> list[Path]:
    return list(folder.rglob(f"*-{reason}.rec"))


@pytest.mark.parametrize("options", [(), ("--observer-process",)])
def test_what_a_killed_server_did_is_there(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """SIGUSR2 saves while it serves; after SIGKILL `record save` finds the rest.

    Another server in the same folder serves all the while, and takes its own away.
    """
    environment = {"TMPDIR": str(tmp_path)}
    with serving(*OPTIONS, environment=environment) as other:
        with serving(*OPTIONS, *options, environment=environment) as server:
            assert server.post("/v1/completions", BODY)[0] == 200
            os.kill(server.process.pid, signal.SIGUSR2)
            wait_until(lambda: saved(tmp_path, "signal"), "nothing was saved")
            assert server.post("/v1/completions", BODY)[0] == 200
            engine = server.engine_pid
            os.kill(engine, signal.SIGKILL)
            server.process.kill()
            server.process.wait()
        target = str(tmp_path / "last")
        told = command(
            "record", "save", str(engine), "--output", target, place=tmp_path
        )
        assert other.post("/v1/completions", BODY)[0] == 200
        assert other.end() == 0

    assert "8 steps, 0 damaged" in told.stdout, told.stderr
    last = read_recording(tmp_path / "last")
    assert [each.served is not None for each in last.requests.values()][:1] == [True]
    assert last.steps[-1].published is not None
    assert [path.stem.split("-")[2] for path in tmp_path.rglob("*.ring")] == [
        str(engine)
    ]
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in left if MARKER.encode() in path.read_bytes()]


def test_rings_of_killed_engines_become_few_recordings(tmp_path: Path) -> None:
    """Each of two engines has a ring; the next server keeps as many as it is told."""
    options = (*OPTIONS, "--flight-recorder-keep", "1")
    environment = {"TMPDIR": str(tmp_path)}
    two = ("--data-parallel-size", "2")
    with serving(*options, *two, environment=environment) as server:
        assert server.post("/v1/completions", BODY)[0] == 200
        engines = engines_of(server.process.pid)
        killed = sorted(tmp_path.rglob("*.ring"))
        several = command("record", "save", "--output", "one", place=tmp_path)
        for pid in (server.process.pid, *engines.values()):
            os.kill(pid, signal.SIGKILL)
        server.process.wait()
    assert [path.stem for path in killed] == [
        f"engine-{index}-{pid}" for index, pid in sorted(engines.items())
    ]
    assert "--output takes one ring, not 2" in several.stderr

    with serving(*options, environment=environment) as server:
        assert server.post("/v1/completions", BODY)[0] == 200
        [ring] = tmp_path.rglob("*.ring")
        [front] = tmp_path.rglob("*.front")
        assert ring not in killed
        assert front.stem.endswith(f"-{server.process.pid}")
        [left] = saved(tmp_path, "left")
        assert server.end() == 0
    assert read_recording(left).header.owner_pid != server.process.pid


def test_a_stopped_engine_is_explained_from_outside(tmp_path: Path) -> None:
    """Its ring is read and saved while it stands still; then it serves on."""
    environment = {"TMPDIR": str(tmp_path)}
    long = {**BODY, "max_tokens": 200}
    with (
        serving(*OPTIONS, environment=environment) as server,
        ThreadPoolExecutor() as pool,
    ):
        engine = server.engine_pid
        answer = pool.submit(
            server.post, "/v1/completions", long, {"X-Request-Id": "r-1"}
        )
        server.wait_for("hookline_requests_running", 1)
        os.kill(engine, signal.SIGSTOP)
        told: list[str] = []

        def hangs() -> bool:
            told[:] = [command("stalled", str(engine), place=tmp_path).stdout]
            return " hangs " in told[0]

        wait_until(hangs, "nobody saw that it hangs")
        target = tmp_path / "stopped"
        asked = ("record", "save", str(engine), "--output", str(target))
        kept = command(*asked, place=tmp_path)
        os.kill(engine, signal.SIGCONT)
        assert answer.result()[0] == 200
        assert server.end() == 0

    assert f"engine 0 (process {engine}" in told[0]
    # Who is stopped between two steps computes nobody's token.
    assert "r-1" in told[0] or " between two steps" in told[0]
    assert ", 0 damaged records" in kept.stdout, kept.stderr
    [request] = read_recording(target).find_request("r-1")
    assert read_recording(target).requests[request].finished is None


@pytest.mark.parametrize("content", ["hashes", "tokens"])
def test_what_clients_write_is_shown_nowhere(tmp_path: Path, content: str) -> None:
    """No prompt's text or ids are in pages, frames, traces or the log.

    Rings have them only with `tokens`.
    """
    options = ("--stat-logger", "live", "--flight-recorder-content", content)
    asked = {**BODY, "stop": [MARKER]}
    with serving(*OPTIONS, *options, environment={"TMPDIR": str(tmp_path)}) as server:
        for prompt in (MARKER, [PROMPT_ID] * 40, MARKER * 2000):
            server.post(
                "/v1/completions", {**asked, "prompt": prompt}, {"X-Request-Id": "r"}
            )
        [ring] = tmp_path.rglob("*.ring")
        shown = [
            *(server.get(path)[1] for path in PAGES),
            of_live_view(server),
            server.log_with("POST /v1/completions 400"),
        ]
        paths = [str(tmp_path / name) for name in ("trace.pftrace", "trace.json")]
        for flag, path in zip(("--perfetto", "--json"), paths, strict=True):
            told = command("trace", str(ring), flag, path, place=tmp_path)
            assert "8 steps" in told.stdout, told.stderr
        kept = ring.read_bytes()
        assert server.end() == 0

    written = [each.encode() for each in shown]
    written += [Path(path).read_bytes() for path in paths]
    assert not [page for page in written for each in CLIENTS_OWN if each in page]
    assert all((each in kept) is (content == "tokens") for each in CLIENTS_OWN[:2])
