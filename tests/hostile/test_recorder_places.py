"""Places that are full, small or cannot be written, where rings are to be."""

from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from hookline_recording import read_recording
from hookline_testing.container import BOX, Container, obstacle, serving_in
from hookline_testing.server_process import Server, engines_of

pytestmark = [
    pytest.mark.hostile,
    pytest.mark.skipif(bool(obstacle()), reason=f"no mounts: {obstacle()}"),
]

OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--num-kv-blocks", "256"),
    *("--simulated-step-seconds", "0.002"),
)
MIB = 1024 * 1024


def serves(server: Server) -> bool:
    """Whether it serves as many steps as fill some pages of a ring."""
    body = {"model": "demo", "prompt": "a", "max_tokens": 200, "ignore_eos": True}
    status, answer = server.post("/v1/completions", body)
    return status == 200 and answer["usage"]["completion_tokens"] == 200


def seen(server: Server, folder: Path) -> Path:
    """A folder as the server sees it."""
    return Path(f"/proc/{server.process.pid}/root{folder}")


def first_frame(server: Server) -> bytes:
    """What a viewer of the live view gets first."""
    url = f"http://127.0.0.1:{server.port}/live/frames"
    with urlopen(url, timeout=60) as answer:
        lines: Iterator[bytes] = iter(answer)
        return next(line for line in lines if line.startswith(b"data: "))


def fill(path: Path) -> None:
    """Takes all room that is left."""
    with path.open("wb", buffering=0) as file:
        for size in (MIB, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def test_a_disk_that_fills_up_costs_recordings_only(tmp_path: Path) -> None:
    """What a ring needs is its own; a copy is refused by name, and none is half."""
    with serving_in(Container(uid=0, tmp="8m"), tmp_path, *OPTIONS) as (server, _):
        place = seen(server, BOX)
        assert serves(server)
        assert server.post("/debug/recording", {})[0] == 200
        files = {path.name: path.stat().st_size for path in place.rglob("*.*")}
        fill(place / "filler")

        assert serves(server)
        status, told = server.post("/debug/recording", {})
        assert serves(server)

        log = server.log_with("cannot save")
        assert files == {path.name: path.stat().st_size for path in place.rglob("*.*")}
        [saved] = place.rglob("*.rec")
        [ring] = place.rglob("*.ring")
        assert (status, told["recordings"]) == (507, [])
        assert told["refused"][0].endswith(f"/{ring.name}: No space left on device")
        assert log.count("cannot save") == 1
        assert len(read_recording(saved).steps) == 200
        assert len(read_recording(ring).steps) >= 600
        assert server.end() == 0


@pytest.mark.parametrize(
    ("container", "reason"),
    [
        (Container(uid=0, tmp="4k"), "No space left on device"),
        (Container(uid=0, tmp=None, shm=""), "Read-only file system"),
    ],
    ids=["full", "read-only"],
)
def test_no_place_for_a_ring_costs_a_line(
    container: Container, reason: str, tmp_path: Path
) -> None:
    """A server without a recorder serves, says why, and has nothing to save."""
    with serving_in(container, tmp_path, *OPTIONS) as (server, _):
        assert serves(server)
        status, told = server.post("/debug/recording", {})
        log = server.log_with("POST /debug/recording")
        assert server.end() == 0

    assert (status, told["error"]["code"]) == (404, "no_recording")
    [line] = [each for each in log.splitlines() if "flight recorder" in each]
    assert "there is no flight recorder: " in line
    assert reason in line
    assert "Traceback" not in log


def test_rings_leave_room_in_small_shared_memory(tmp_path: Path) -> None:
    """Of 64 MiB two engines and the front end take about a half; all is seen."""
    options = (
        *("--data-parallel-size", "2"),
        *("--observer-process", "--stat-logger", "live"),
    )
    container = Container(uid=0, tmp=None, shm="64m")
    with serving_in(container, tmp_path, *OPTIONS, *options) as (server, _):
        place = seen(server, Path("/dev/shm"))  # noqa: S108 - a container's
        assert serves(server)
        rings = sorted(path.name for path in place.rglob("*.ring"))
        engines = engines_of(server.process.pid)
        sizes = [path.stat().st_size for path in place.rglob("hookline-recordings-0/*")]
        frame = first_frame(server)
        status, told = server.post("/debug/recording", {})
        assert server.end() == 0

    assert rings == [f"engine-{at}-{pid}.ring" for at, pid in sorted(engines.items())]
    assert 32 * MIB < sum(sizes) < 36 * MIB
    assert frame.startswith(b"data: ")
    assert (status, len(told["recordings"]), told["refused"]) == (200, 2, [])
