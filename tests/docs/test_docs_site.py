"""The documentation's site has each page, and its links lead somewhere."""

import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from hookline_testing.chromium import PROGRAM, browsing
from hookline_testing.client_environments import NotInstalledError
from hookline_testing.debian_programs import MUST_INSTALL, needed_program
from hookline_testing.script_module import script_module

ROOT = Path(__file__).parents[2]
README = """# House
## Documentation

- Read it: [tour](docs/tour.md),
  [words](docs/words.md)
"""


docs_site = script_module(ROOT / "tools" / "docs_site.py")


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A repository with three pages, which link to a file and to a folder."""
    root = tmp_path / "house"
    (root / "docs").mkdir(parents=True)
    (root / "README.md").write_text(README, "utf-8")
    (root / "docs" / "tour.md").write_text("# Tour\n[`a`](../a.json) `[b](b)`", "utf-8")
    (root / "docs" / "words.md").write_text(
        "# Words\n[up](tour.md#x) [all](../deploy/)", "utf-8"
    )
    (root / "deploy" / "chart").mkdir(parents=True)
    (root / "deploy" / "chart" / "values.yaml").write_text("{}", "utf-8")
    (root / "a.json").write_text("{}", "utf-8")
    return root


def test_pages_and_what_they_link_to_keep_their_places(
    house: Path, tmp_path: Path
) -> None:
    """
    The site has the pages and linked files where the repository has them.
    """
    docs_site.lay_out(house, tmp_path / "site")

    pages = tmp_path / "site" / "pages"
    expected = ("README.md", "docs/tour.md", "docs/words.md", "a.json")
    assert all((pages / path).is_file() for path in expected)


def test_a_link_to_a_folder_leads_to_a_list_of_its_files(
    house: Path, tmp_path: Path
) -> None:
    """
    A folder has a page on the site, as it has one where repositories are shown.
    """
    docs_site.lay_out(house, tmp_path / "site")

    pages = tmp_path / "site" / "pages"
    listed = (pages / "deploy" / "README.md").read_text("utf-8")
    assert "(../deploy/README.md)" in (pages / "docs" / "words.md").read_text("utf-8")
    assert "[chart/values.yaml](chart/values.yaml)" in listed
    assert (pages / "deploy" / "chart" / "values.yaml").is_file()


def test_a_link_to_no_file_is_refused(house: Path, tmp_path: Path) -> None:
    """
    A link to what is missing is an error that names its page.
    """
    (house / "a.json").unlink()

    with pytest.raises(docs_site.LayoutError, match=r"docs/tour\.md links to"):
        docs_site.lay_out(house, tmp_path / "site")


def test_a_page_that_no_list_has_is_refused(house: Path, tmp_path: Path) -> None:
    """
    Each page of docs/ is in the README's list.
    """
    (house / "docs" / "new.md").write_text("# New", "utf-8")

    with pytest.raises(docs_site.LayoutError, match=r"docs/new\.md"):
        docs_site.lay_out(house, tmp_path / "site")


def test_the_navigation_has_each_page() -> None:
    """
    Each page is reached, the plugins' by their kinds.
    """
    pages = docs_site.written_pages(ROOT)

    text = json.dumps(docs_site.navigation(ROOT, pages))

    assert [str(page) for page in pages if json.dumps(str(page)) not in text] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built of the repository; any warning is a failure."""
    project = tmp_path_factory.mktemp("docs") / "project"
    docs_site.lay_out(ROOT, project)
    try:
        generator = docs_site.prepare_generator(docs_site.ENVIRONMENTS, project)
    except NotInstalledError as error:
        if MUST_INSTALL in os.environ:
            raise
        pytest.skip(f"the site's generator cannot be installed: {error}")
    done = subprocess.run(
        [*generator, "build", "--strict", "--clean"],
        cwd=project,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return project / "site"


@pytest.fixture
async def address(site: Path) -> AsyncIterator[str]:
    """Where the site is served."""
    application = web.Application()
    application.router.add_static("/", site)
    async with TestServer(application) as server:
        yield str(server.make_url("/"))


@pytest.mark.slow
def test_the_site_has_all_pages_and_can_be_searched(site: Path) -> None:
    """
    Every page is made, and its titles are in the index, those of docstrings, too.
    """
    pages = docs_site.written_pages(ROOT)
    index = json.loads((site / "search.json").read_text("utf-8"))["items"]

    found = {each["location"].partition("#")[0] for each in index}

    assert {place_of(page) for page in pages} <= found
    assert "reference/hookline/#hookline.SamplingParams" in {
        each["location"] for each in index
    }


@pytest.mark.slow
async def test_diagrams_are_drawn_without_another_server(
    address: str, tmp_path: Path
) -> None:
    """
    A browser draws the diagrams of a page, and asks nobody else for anything.
    """
    needed_program(PROGRAM)
    async with browsing(tmp_path) as page:
        await page.go(f"{address}docs/structure/index.html")
        # The theme has replaced each block by a diagram, in a shadow tree.
        await page.until(
            "document.querySelectorAll('div.mermaid').length === 2"
            " && !document.querySelector('pre.mermaid')"
        )
        elsewhere = [
            url
            for url in page.requested
            if not url.startswith((address, "about:", "data:", "blob:"))
        ]

    assert elsewhere == []


def place_of(page: Path) -> str:
    """Where the site has a page."""
    folder = page.parent if page.name == "README.md" else page.with_suffix("")
    return "" if folder == Path() else f"{folder}/"
