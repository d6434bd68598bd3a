"""The images' recipe is linted, complete, and gives servers as little as possible."""

import json
import re
import shlex
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from threading import Thread

import pytest

from hookline_server.health_check import is_ready
from hookline_testing.distributions import read_distributions, with_needs
from hookline_testing.release.requirements import needed
from hookline_testing.serve_options import options_of
from hookline_testing.tls_files import tls_files

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "deploy" / "docker" / "Dockerfile"
TARGETS = ("cpu", "cuda")
LINES = [
    line
    for line in RECIPE.read_text("utf-8").replace("\\\n", "").splitlines()
    if line and not line.startswith("#")
]
OURS = read_distributions(ROOT)


def stage(name: str) -> list[tuple[str, str]]:
    """A stage's instructions after those of the stages that it begins with."""
    names = [
        (each.split()[1], each.split()[-1]) for each in LINES if each[:4] == "FROM"
    ]
    [parent] = [base for base, own in names if own == name]
    at = [n for n, each in enumerate(LINES) if re.match(rf"FROM .* AS {name}$", each)]
    own: list[tuple[str, str]] = []
    for line in LINES[at[0] + 1 :]:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            break
        own.append((word, rest))
    inherited = stage(parent) if parent in {each for _, each in names} else []
    return [*inherited, *own]


def last(name: str, word: str) -> str:
    return [rest for each, rest in stage(name) if each == word][-1]


def test_recipe_passes_the_linter() -> None:
    """
    Hadolint finds nothing, its least advice included.
    """
    done = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), "--no-color", RECIPE],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stdout) == (0, "")


def test_context_has_all_that_the_image_is_made_of() -> None:
    """
    Each distribution is in the build context, and nothing that is not there.
    """
    ignored = Path(f"{RECIPE}.dockerignore").read_text("utf-8").splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    folders = {each.folder.relative_to(ROOT).parts[:1] for each in OURS.values()}

    assert "*" in ignored
    assert all((ROOT / name).exists() for name in kept)
    assert {each[0] for each in folders if each} <= kept
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= kept


@pytest.mark.parametrize("target", TARGETS)
def test_servers_have_no_privileges(target: str) -> None:
    """
    The last word on the user is a number that is not root's, and one can be named.
    """
    assert last(target, "USER") == "1000"
    assert "--uid 1000" in " ".join(rest for _, rest in stage("server"))
    assert last(target, "VOLUME") == '["/home/hookline/.cache"]'


@pytest.mark.parametrize("target", TARGETS)
def test_server_is_the_first_process(target: str) -> None:
    """
    No shell stands between it and SIGTERM; its command is valid and can be reached.
    """
    entry, command = (
        json.loads(last(target, "ENTRYPOINT")),
        json.loads(last(target, "CMD")),
    )

    _, settings = options_of(command)

    assert entry == ["hookline"]
    assert settings.host == ("0.0.0.0",)  # noqa: S104
    assert settings.port == int(last(target, "EXPOSE"))


@pytest.mark.parametrize("target", TARGETS)
def test_layers_change_the_more_often_the_later(target: str) -> None:
    """
    Torch, what else is of others, and ours: only the last has no index.
    """
    runs = [shlex.split(rest) for word, rest in stage(target) if word == "RUN"]
    torch, others, ours = runs[-3:]

    assert "torch" in torch
    assert others[others.index("--requirement") + 1] == "/wheels/others.txt"
    assert {"--no-index", "--no-deps"} <= set(ours)
    assert ours[-2:] == ["--requirement", "/wheels/ours.txt"]
    assert ("triton" in torch, "uninstall" in others) == (
        (True, False) if target == "cuda" else (False, True)
    )
    for each in (torch, others):
        assert each[each.index("--constraint") + 1] == "/constraints.txt"


def test_requirements_are_told_apart() -> None:
    """
    All that the set and its extras bring, of others and of ours, which have wheels.
    """
    found = needed(OURS, ["hookline[otel]"])
    with_gpu = needed(OURS, ["hookline[gpu,otel]"])

    assert not [each for each in found.others if each.startswith("hookline")]
    assert {each.split("==")[0] for each in found.ours} == with_needs(
        OURS, ["hookline"]
    )
    assert {"grpcio<2,>=1.63", "torch>=2.11", "xgrammar>=0.2.8"} <= set(found.others)
    [more] = set(with_gpu.others) - set(found.others)
    assert more.startswith("triton")
    assert with_gpu.ours == found.ours


@contextmanager
def answering(status: int, place: str, folder: Path) -> Iterator[list[str]]:
    """A server that is ready or not; gives the options by which it is found."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health/ready" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_UNIX if place == "uds" else socket.AF_INET

        def server_bind(self) -> None:
            TCPServer.server_bind(self)  # nor is a socket's file looked up as a host

        def handle_error(self, *_: object) -> None:
            pass

    address = str(folder / "socket") if place == "uds" else ("127.0.0.1", 0)
    with Server(address, Handler) as server:  # type: ignore[arg-type]
        options = [f"--uds={address}"]
        if place != "uds":
            options = ["--port", str(server.server_address[1])]
        if place == "tls":
            files = tls_files(folder)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(files.chain, files.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield options
        server.shutdown()


@pytest.mark.parametrize("place", ["port", "tls", "uds"])
@pytest.mark.parametrize("status", [200, 503])
def test_health_check_finds_the_server(status: int, place: str, tmp_path: Path) -> None:
    """By its options or their variables, and whether or not it is known to have TLS."""
    with answering(status, place, tmp_path) as options:
        flag, value = "=".join(options).split("=")
        variable = {f"HOOKLINE_{flag[2:].upper()}": value}
        found = [
            is_ready(["hookline", "serve", "m", *options], {}),
            is_ready([*options, "--ssl_certfile", "x"], {"HOOKLINE_PORT": "1"}),
            is_ready([], {**variable, "HOOKLINE_HOST": "0.0.0.0"}),  # noqa: S104
        ]

    assert found == [status == 200] * 3
    assert not is_ready([*options], {})


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_images_have_the_health_check(status: int, code: int, tmp_path: Path) -> None:
    """
    It does not ask the proxy that the environment may name, and imports no server.
    """
    told = last("cpu", "HEALTHCHECK")
    python, *arguments = json.loads(told[told.index("[") :])

    with answering(status, "port", tmp_path) as options:
        variables = {"HOOKLINE_PORT": options[-1], "http_proxy": "http://127.0.0.1:9"}
        done = subprocess.run(
            [sys.executable, "-X", "importtime", *arguments],
            env=variables,
            check=False,
            timeout=60,
            capture_output=True,
            text=True,
        )

    assert (python, done.returncode) == ("python", code)
    assert "aiohttp" not in done.stderr
