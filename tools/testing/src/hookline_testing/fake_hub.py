"""A hub on loopback: the API and the files of models, faults included.

It speaks what `huggingface_hub` asks: a model's commit and files, small files as they
are, large ones by a redirect to another origin, ranges, checksums and errors.
"""

import hashlib
import json
import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import unquote, urlsplit

COMMIT = "c0ffee" + 34 * "0"
_API = re.compile(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?")
_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_BLOB = re.compile(r"/cdn/([0-9a-f]+)")
_AGENTS = "/api/agent-harnesses"
_LARGE = (".safetensors", ".gguf")


@dataclass
class Fault:
    """What goes wrong with one answer.

    Attributes:
        status: Answer with this status instead.
        headers: Further headers of it.
        sends: End the connection after these bytes of the body.
        waits: Wait for this after `sends` bytes, instead of ending the connection.
        body: Have this content instead.
    """

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    sends: int | None = None
    waits: threading.Event | None = None
    body: bytes | None = None


@dataclass(frozen=True)
class Asked:
    """A request that came.

    Attributes:
        port: The port of the hub, or of the other origin.
        path: The path, without a query.
        token: The `Authorization` header.
        begin: First byte of the range; 0 without one.
    """

    port: int
    path: str
    token: str | None
    begin: int


@dataclass
class FakeRepo:
    """A model of the hub.

    Attributes:
        files: Contents by path.
        commits: Commits by the names of branches and tags.
        token: Who does not send it sees no model, as if there were none.
        is_gated: Its information is shown, and its files to nobody.
    """

    files: Mapping[str, bytes]
    commits: Mapping[str, str] = field(default_factory=lambda: {"main": COMMIT})
    token: str | None = None
    is_gated: bool = False


class FakeHub:
    """A hub that runs in threads.

    Attributes:
        repos: The models by their ids.
        faults: What goes wrong next, by the last part of the path.
        asked: The requests so far.
    """

    def __init__(self) -> None:
        self.repos: dict[str, FakeRepo] = {}
        self.faults: dict[str, deque[Fault]] = {}
        self.asked: list[Asked] = []
        self._hub, self._other = _server(self), _server(self)

    @property
    def url(self) -> str:
        """The hub's endpoint."""
        return f"http://127.0.0.1:{self._hub.server_port}"

    @property
    def other_url(self) -> str:
        """The origin that has large files."""
        return f"http://localhost:{self._other.server_port}"

    @property
    def other_port(self) -> int:
        """The port of that origin."""
        return self._other.server_port

    def fail(self, name: str, *faults: Fault) -> None:
        """Has the next answers go wrong.

        Args:
            name: The file's name, or the model's for the API.
            *faults: What goes wrong with each.
        """
        self.faults.setdefault(name, deque()).extend(faults)

    def begins(self, name: str) -> list[int]:
        """Returns the first bytes of the ranges that were asked of a large file."""
        digest = next(
            hashlib.sha256(repo.files[name]).hexdigest()
            for repo in self.repos.values()
            if name in repo.files
        )
        return [each.begin for each in self.asked if each.path.endswith(digest)]

    def close(self) -> None:
        """Ends both servers."""
        for each in (self._hub, self._other):
            each.shutdown()
            each.server_close()


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """Runs a hub for a block of code."""
    hub = FakeHub()
    try:
        yield hub
    finally:
        hub.close()


def _server(hub: FakeHub) -> ThreadingHTTPServer:
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(
        target=server.serve_forever, args=(0.01,), name="fake-hub", daemon=True
    ).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    hub: ClassVar[FakeHub]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        assert isinstance(self.server, ThreadingHTTPServer)
        begin = int((self.headers["Range"] or "bytes=0-")[6:].partition("-")[0])
        token = self.headers["Authorization"]
        if path == _AGENTS:  # which the library asks at times, for its user agent
            self._answer(404)
            return
        self.hub.asked.append(Asked(self.server.server_port, path, token, begin))
        if (match := _API.fullmatch(path)) is not None:
            self._information(match[1], match[2], token)
        elif (match := _FILE.fullmatch(path)) is not None:
            self._file(match[1], match[2], match[3], token, begin)
        elif (match := _BLOB.fullmatch(path)) is not None:
            self._blob(match[1], begin)
        else:
            self._answer(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - theirs
        """Stays silent."""

    def _information(
        self, repo_id: str, revision: str | None, token: str | None
    ) -> None:
        if self._fails(repo_id):
            return
        if (repo := self._repo(repo_id, token)) is None:
            return
        if (commit := _commit(repo, revision or "main")) is None:
            self._answer(404, {"X-Error-Code": "RevisionNotFound"})
            return
        siblings = [_sibling(*each) for each in repo.files.items()]
        told = {"id": repo_id, "sha": commit, "siblings": siblings}
        self._answer(
            200, {"Content-Type": "application/json"}, json.dumps(told).encode()
        )

    def _file(
        self, repo_id: str, revision: str, path: str, token: str | None, begin: int
    ) -> None:
        if (repo := self._repo(repo_id, token)) is None:
            return
        if repo.is_gated:
            self._answer(403, {"X-Error-Code": "GatedRepo"})
            return
        if (content := repo.files.get(path)) is None:
            self._answer(404, {"X-Error-Code": "EntryNotFound"})
            return
        headers = {"X-Repo-Commit": str(_commit(repo, revision))}
        if path.endswith(_LARGE):
            digest = hashlib.sha256(content).hexdigest()
            headers |= {
                "X-Linked-Etag": f'"{digest}"',
                "X-Linked-Size": str(len(content)),
            }
            self._answer(
                302, headers | {"Location": f"{self.hub.other_url}/cdn/{digest}"}
            )
            return
        self._send(path, content, begin, headers | {"ETag": f'"{_git_sha1(content)}"'})

    def _blob(self, digest: str, begin: int) -> None:
        for repo in self.hub.repos.values():
            for path, content in repo.files.items():
                if hashlib.sha256(content).hexdigest() == digest:
                    self._send(path, content, begin, {})
                    return
        self._answer(404)

    def _send(
        self, name: str, content: bytes, begin: int, headers: Mapping[str, str]
    ) -> None:
        faults = self.hub.faults.get(name)
        fault = faults.popleft() if faults else Fault()
        if fault.status:
            self._answer(fault.status, fault.headers)
            return
        content = content if fault.body is None else fault.body
        if begin and begin >= len(content):
            self._answer(416)
            return
        part = content[begin:]
        found = {"Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"}
        self._answer(
            206 if begin else 200, {**headers, **(found if begin else {})}, part, fault
        )

    def _answer(
        self,
        status: int,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        fault: Fault | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(ConnectionError):  # who asked may have gone
            self._write(body, fault or Fault())

    def _write(self, body: bytes, fault: Fault) -> None:
        self.wfile.write(body[: fault.sends])
        if fault.waits is not None:
            fault.waits.wait()
            self.wfile.write(body[fault.sends :])
        elif fault.sends is not None:
            self.close_connection = True

    def _fails(self, name: str) -> bool:
        if not (faults := self.hub.faults.get(name)):
            return False
        fault = faults.popleft()
        self._answer(fault.status, fault.headers)
        return True

    def _repo(self, repo_id: str, token: str | None) -> FakeRepo | None:
        """Returns the model, or answers as the hub does when it shows none."""
        repo = self.hub.repos.get(repo_id)
        if repo is None or (repo.token is not None and token != f"Bearer {repo.token}"):
            code = {"X-Error-Code": "RepoNotFound"}
            self._answer(404 if token else 401, code)
            return None
        return repo


def _commit(repo: FakeRepo, revision: str) -> str | None:
    if revision in repo.commits.values():
        return revision
    return repo.commits.get(revision)


def _sibling(path: str, content: bytes) -> dict[str, object]:
    told: dict[str, object] = {
        "rfilename": path,
        "size": len(content),
        "blobId": _git_sha1(content),
    }
    if path.endswith(_LARGE):
        digest = hashlib.sha256(content).hexdigest()
        told["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 134}
    return told


def _git_sha1(content: bytes) -> str:
    blob = b"blob %d\0" % len(content) + content
    return hashlib.sha1(blob, usedforsecurity=False).hexdigest()
