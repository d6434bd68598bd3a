"""Servers in containers that give them as little as possible answer requests."""

import signal
from pathlib import Path

import pytest

from hookline_testing.container import BOX, Container, end, obstacle, serving_in
from hookline_testing.essential import essential

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(obstacle()), reason=obstacle()),
]

SHARED = Path("/dev/shm")  # noqa: S108 - a container's
ROWS = {
    "no home": (Container(), BOX),
    "home is the root, first process": (
        Container(home="/", tmp="1m", is_first=True),
        SHARED,
    ),
    "nothing can be written": (Container(home="/nonexistent", tmp=None, shm=""), None),
    "no home, small shared memory": (Container(shm="64k"), BOX),
    "relative home": (Container(home="home", tmp=None), SHARED),
    "root without a home": (Container(uid=0, home=""), BOX),
    "root, home is the root": (Container(uid=0, home="/", tmp="1m"), SHARED),
    "root, nothing can be written": (
        Container(uid=0, home="/", tmp=None, shm="", is_first=True),
        None,
    ),
    "nobody, first process": (Container(uid=65534, is_first=True), BOX),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name",
    essential(list(ROWS), "no home", "home is the root, first process"),
)
def test_server_works_with_what_it_is_given(name: str, tmp_path: Path) -> None:
    """
    It answers, says where compiled kernels are kept, and leaves nothing but these.
    """
    container, kept_in = ROWS[name]
    argv = ["--model", "demo", "--port", "0"]
    if kept_in is None:  # it would compile its kernels before it is ready
        argv += ["--kernels", "torch"]

    with serving_in(container, tmp_path, *argv) as (server, box):
        status, reply = server.post(
            "/v1/completions", {"model": "demo", "prompt": "class A:", "max_tokens": 4}
        )
        own = f"hookline-{container.uid}"
        log = server.log_with(
            *(
                f"compiled kernels are kept in {kept_in}/{own}/kernels/",
                "kernels are compiled in the background",
            )
            if kept_in
            else ("the sockets of engines have no files",)
        )
        ended = end(server, container, signal.SIGTERM)

    assert (status, reply["usage"]["completion_tokens"]) == (200, 4)
    assert "Traceback" not in log
    assert ended == 0
    left = {each.name for each in box.iterdir()} - {
        f"hookline-recordings-{container.uid}"
    }
    assert left == ({own} if kept_in == BOX else set())
