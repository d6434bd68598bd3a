"""A logger's folder of static files is served, and nothing outside of it."""

from pathlib import Path

import pytest

from hookline import hookimpl
from hookline.pages import Routes
from hookline_server.page_files import content_type
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of


class View:
    """A logger with a page made of files."""

    def __init__(self, folder: Path, path: str = "/view") -> None:
        self._folder, self._path = folder, path

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        routes.files(self._path, self._folder)


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    folder = tmp_path / "web"
    (folder / "parts").mkdir(parents=True)
    (folder / "index.html").write_text("<p>index</p>")
    (folder / "parts" / "app.js").write_text("let x = 1")
    (folder / ".secret").write_text("no")
    (tmp_path / "outside.txt").write_text("no")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    (folder / "loop").symlink_to(folder / "loop")
    engine = FakeEngine()
    engine.loggers = [View(folder)]
    return engine


async def test_files_have_their_types(engine: FakeEngine) -> None:
    """
    The index is at the path itself, other files below it, each with its content type.
    """
    async with client_of(engine) as client:
        index = await client.get("/view")
        script = await client.get("/view/parts/app.js")

        assert index.url.path == "/view/"
        assert await index.text() == "<p>index</p>"
        assert index.headers["Content-Type"] == "text/html; charset=utf-8"
        assert await script.text() == "let x = 1"
        assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"
        assert script.headers["X-Content-Type-Options"] == "nosniff"


async def test_unchanged_files_are_not_sent_again(engine: FakeEngine) -> None:
    """
    A client may keep a file, must ask whether it has changed, and gets a 304 if not.
    """
    async with client_of(engine) as client:
        first = await client.get("/view/index.html")
        headers = {"If-None-Match": first.headers["ETag"]}
        again = await client.get("/view/index.html", headers=headers)

        assert first.headers["Cache-Control"] == "no-cache"
        assert "Last-Modified" in first.headers
        assert (again.status, await again.read()) == (304, b"")


@pytest.mark.parametrize(
    "name",
    [
        "nothing.txt",
        "parts",
        ".secret",
        "link.txt",
        "loop",
        "..%2foutside.txt",
        "%2e%2e/outside.txt",
        "parts/..%2f..%2foutside.txt",
        "%2fetc%2fpasswd",
        "a%00b",
        "x" * 5000,
    ],
)
async def test_nothing_else_is_served(engine: FakeEngine, name: str) -> None:
    """
    Missing and hidden files, folders, links and paths that lead out are a 404 in shape.
    """
    async with client_of(engine) as client:
        url = client.make_url("/").joinpath("view", name, encoded=True)
        response = await client.session.get(url)

        assert response.status == 404
        assert (await response.json())["error"]["code"] == "route_not_found"


async def test_files_need_the_token(engine: FakeEngine) -> None:
    """
    With a metrics token files are for those that send it, as pages are.
    """
    settings = ServerSettings(metrics_token="t" * 20)
    async with client_of(engine, settings) as client:
        refused = await client.get("/view/")
        headers = {"Authorization": f"Bearer {'t' * 20}"}
        served = await client.get("/view/", headers=headers)

        assert (refused.status, served.status) == (401, 200)


async def test_folder_must_exist(tmp_path: Path) -> None:
    """
    A logger that names a folder that is not there ends the start.
    """
    engine = FakeEngine()
    engine.loggers = [View(tmp_path / "none")]

    with pytest.raises(Exception, match="none is not a folder"):
        async with client_of(engine):
            pass


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.css", "text/css; charset=utf-8"),
        ("a.mjs", "text/javascript; charset=utf-8"),
        ("a.svg", "image/svg+xml; charset=utf-8"),
        ("a.json", "application/json; charset=utf-8"),
        ("a.png", "image/png"),
        ("a.woff2", "font/woff2"),
        ("a", "application/octet-stream"),
    ],
)
def test_content_types(name: str, expected: str) -> None:
    """
    Types follow from names, on every system alike; text is UTF-8.
    """
    assert content_type(name) == expected
