"""The server's socket file: who may use it, and what becomes of it."""

import socket
import stat
from contextlib import ExitStack
from pathlib import Path

import pytest
from aiohttp import ClientSession, UnixConnector

from hookline_metrics.front_end_parts import ServerAddress
from hookline_server.app import create_app
from hookline_server.binding import bound
from hookline_server.cli.commands.banner import banner
from hookline_server.cli.errors import CommandFailedError
from hookline_server.listening import server_address
from hookline_server.settings import ServerSettings
from hookline_server.sites import sites
from hookline_server.unix_socket import unix_socket
from hookline_testing.scripted_server import FakeEngine


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A path that is short enough for a socket, wherever the folder is."""
    monkeypatch.chdir(tmp_path)
    return "api.sock"


def mode_of(path: str) -> int | None:
    """Returns the file's permissions; None if it is gone."""
    file = Path(path)
    return stat.S_IMODE(file.stat().st_mode) if file.exists() else None


async def test_a_server_answers_on_a_file(path: str) -> None:
    """
    Any name of the host is answered, the banner shows how, and the file has its mode.
    """
    settings = ServerSettings(uds=path, uds_mode=0o660)
    app = create_app(FakeEngine(), settings)
    with ExitStack() as stack:
        listening = bound(settings, stack)
        mode = mode_of(path)
        address = server_address(listening.api.sockets[0])
        text = banner(
            app, root=listening.api.url, pages_root=listening.api.url, seconds=1.0
        )
        async with (
            sites([(app, listening.api)]),
            ClientSession(connector=UnixConnector(path)) as session,
        ):
            answer = await session.get("http://llm.example.org/v1/models")
            foreign = await session.get(
                "http://localhost/v1/models", headers={"Origin": "https://evil.example"}
            )
            assert (answer.status, foreign.status) == (200, 403)

    assert mode == 0o660
    assert address == ServerAddress(host=path, port=0)
    assert f"  socket   {path}\n  API      http://localhost/v1\n" in text
    assert f"curl --unix-socket {path} http://localhost/v1/completions" in text
    assert mode_of(path) is None


def test_a_file_that_was_left_is_taken_over(path: str) -> None:
    """
    Nobody listens on it any more, such as after a crash.
    """
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)

    with unix_socket(path, 0o600), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)

    assert not Path(path).exists()


def test_a_file_on_which_somebody_listens_stays(path: str) -> None:
    """
    The second server says so and ends, and the first one still answers.
    """
    with unix_socket(path, 0o600):
        with (
            pytest.raises(CommandFailedError, match="another process listens there"),
            unix_socket(path, 0o600),
        ):
            pass
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)


def test_the_file_of_a_later_server_stays(path: str) -> None:
    """
    A server removes its own file only.
    """
    with unix_socket(path, 0o600):
        Path(path).unlink()
        other = socket.socket(socket.AF_UNIX)
        other.bind(path)
    other.close()

    assert Path(path).exists()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("text", "it exists, and is no socket"),
        ("missing/api.sock", "No such file or directory"),
        ("x" * 108, "it is longer than 107 bytes"),
    ],
)
@pytest.mark.usefixtures("path")
def test_a_path_that_cannot_be_is_one_sentence(name: str, expected: str) -> None:
    """
    It names the path, and what is there stays.
    """
    Path("text").write_text("kept")

    with (
        pytest.raises(CommandFailedError, match=f"the socket {name}: {expected}"),
        unix_socket(name, 0o600),
    ):
        pass

    assert Path("text").read_text() == "kept"
