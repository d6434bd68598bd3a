"""Builds the documentation's site: `python tools/docs_site.py build`, or `serve`.

Zensical makes it of a project that is laid out here. Pages keep their places in the
repository, so that a link means the same on the site as in the checkout; the files that
they link to are copied, too, and folders get a page that lists them. The pages of the
reference are written anew: mkdocstrings fills them from docstrings, without importing
anything.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from hookline_testing.client_environments import (
    ClientEnvironments,
    NotInstalledError,
    python_of,
)

ROOT = Path(__file__).parents[1]
SETTINGS = ROOT / "tools" / "docs_site"
ENVIRONMENTS = ROOT / ".clients" / "docs_site"
BUILT = ROOT / "build" / "docs"
_DIAGRAMS = Path("node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js")
_SOURCES = ("*/src", "*/*/src", "*/*/*/src")
_UNREAD = {"build", "dist", "node_modules", "tests", "__pycache__"}
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[#)])")
_NAMED_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s#]+\.md)\)")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_LISTED = re.compile(r"^- (\w+)[^:]*:(.*?)(?=^- |^$)", re.DOTALL | re.MULTILINE)

Navigation = list[dict[str, Any]]
"""Titles, each with a page or with entries of its own."""


class LayoutError(Exception):
    """A link leads nowhere, or no link leads to a page."""


def main() -> int:
    """Builds or shows the site, and returns the generator's exit status."""
    parser = argparse.ArgumentParser(description="Builds the documentation's site.")
    parser.add_argument("command", choices=("build", "serve"))
    parser.add_argument("--address", default="127.0.0.1:8001", help="of `serve`")
    given = parser.parse_args()
    try:
        lay_out(ROOT, BUILT)
        generator = prepare_generator(ENVIRONMENTS, BUILT)
    except (LayoutError, NotInstalledError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if given.command == "build":
        arguments = ["build", "--strict", "--clean"]
    else:
        arguments = ["serve", "--dev-addr", given.address]
    return subprocess.call([*generator, *arguments], cwd=BUILT)  # noqa: S603 - ours


def prepare_generator(environments: Path, project: Path) -> list[str]:
    """Installs what makes the site, and returns the generator's command.

    What draws diagrams is put among the pages; without npm, it is left to the theme,
    which has browsers fetch it.

    Args:
        environments: Where packages are installed, or were before.
        project: Where the site is laid out.

    Raises:
        NotInstalledError: The generator could not be installed.
    """
    installer = ClientEnvironments(environments)
    python = python_of(installer.install(SETTINGS / "requirements.txt"))
    drawing = project / "pages" / _DIAGRAMS.name
    try:
        installed = installer.install(SETTINGS / "package.json")
        shutil.copyfile(installed / _DIAGRAMS, drawing)
    except NotInstalledError as error:
        sys.stderr.write(f"Browsers will fetch what draws diagrams: {error}\n")
        drawing.touch()
    return [str(python), "-m", "zensical"]


def lay_out(root: Path, folder: Path) -> None:
    """Writes the project of the site into a folder.

    Args:
        root: The repository.
        folder: Need not exist; what is in it is replaced.

    Raises:
        LayoutError: A link to a file leads nowhere, or no list has one of the pages.
    """
    settings = yaml.safe_load((SETTINGS / "site.yml").read_text("utf-8"))
    pages = written_pages(root)
    shutil.rmtree(folder, ignore_errors=True)
    linked = linked_paths(root, pages)
    folders = {path for path in linked if (root / path).is_dir()}
    below = {path: _files_below(root, path) for path in folders}
    for path in {*pages, *linked, *chain.from_iterable(below.values())} - folders:
        copy = folder / "pages" / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path in pages:
            text = (root / path).read_text("utf-8")
            copy.write_text(_to_pages(text, path.parent, folders), "utf-8")
        else:
            shutil.copyfile(root / path, copy)
    for path, files in below.items():
        index = folder / "pages" / path / "README.md"
        if not index.exists():
            index.write_text(_listing(path, files), "utf-8")
    reference = _write_reference(settings["reference"], folder / "pages")
    project = settings["site"]
    project["nav"] = [*navigation(root, pages), {"Reference": reference}]
    [plugin] = [each for each in project["plugins"] if isinstance(each, dict)]
    plugin["mkdocstrings"]["handlers"]["python"]["paths"] = [
        str(path) for glob in _SOURCES for path in sorted(root.glob(glob))
    ]
    text = yaml.safe_dump(project, sort_keys=False)
    (folder / "mkdocs.yml").write_text(text, "utf-8")


def written_pages(root: Path) -> list[Path]:
    """Returns the repository's pages, relative to its folder."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(
            each for each in folders if each not in _UNREAD and each[0] != "."
        )
        here = Path(folder).relative_to(root)
        found += [here / each for each in sorted(files) if each.endswith(".md")]
    return found


def linked_paths(root: Path, pages: Sequence[Path]) -> set[Path]:
    """Returns the files and folders to which pages link.

    Raises:
        LayoutError: There is no such file or folder.
    """
    found = set()
    for page in pages:
        for target in _links((root / page).read_text("utf-8")):
            path = Path(os.path.normpath(page.parent / target))
            if not (root / path).exists():
                raise LayoutError(f"{page} links to {target}, which does not exist")
            found.add(path)
    return found


def navigation(root: Path, pages: Sequence[Path]) -> Navigation:
    """Returns the README's list of documentation, and the distributions' pages.

    Raises:
        LayoutError: The list lacks a page.
    """
    readme = (root / "README.md").read_text("utf-8")
    listed: Navigation = []
    found = {Path("README.md")}
    for title, text in _LISTED.findall(readme.partition("## Documentation")[2]):
        links = [(words, Path(path)) for words, path in _NAMED_LINK.findall(text)]
        found.update(path for _, path in links)
        listed.append({title: [{_capital(words): str(path)} for words, path in links]})
    others = [page for page in pages if page not in found]
    if missing := [str(page) for page in others if page.name != "README.md"]:
        raise LayoutError(f"the README's list of documentation lacks {missing}")
    return [{"Home": "README.md"}, *listed, *_distributions(root, others)]


def _distributions(root: Path, pages: Sequence[Path]) -> Navigation:
    """Returns the plugins' pages, by the folders of their kinds, and the others'."""
    kinds: dict[str, Navigation] = {}
    others: Navigation = []
    for page in pages:
        title = _TITLE.search((root / page).read_text("utf-8"))
        entry = {title[1] if title else page.parent.name: str(page)}
        if page.parts[0] == "plugins":
            kinds.setdefault(_capital(page.parts[1]), []).append(entry)
        else:
            others.append(entry)
    plugins = [{kind: entries} for kind, entries in kinds.items()]
    return [{"Plugins": plugins}, {"Packages": others}]


def _write_reference(
    reference: Mapping[str, Sequence[str]], folder: Path
) -> Navigation:
    (folder / "reference").mkdir()
    listed: Navigation = []
    for title, modules in reference.items():
        path = f"reference/{title.lower().replace(' ', '_')}.md"
        text = "\n".join([f"# {title}\n", *(f"::: {name}\n" for name in modules)])
        (folder / path).write_text(text, "utf-8")
        listed.append({title: path})
    return listed


def _links(text: str) -> Iterator[str]:
    for target in _LINK.findall(_CODE.sub("", text)):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def _files_below(root: Path, folder: Path) -> list[Path]:
    found = (path for path in (root / folder).rglob("*") if path.is_file())
    return sorted(path.relative_to(root) for path in found)


def _listing(folder: Path, files: Sequence[Path]) -> str:
    names = [str(path.relative_to(folder)) for path in files]
    return "\n".join([f"# {folder}\n", *(f"- [{name}]({name})" for name in names), ""])


def _to_pages(text: str, here: Path, folders: Collection[Path]) -> str:
    """Has links to folders lead to the pages that list them."""

    def replaced(found: re.Match[str]) -> str:
        path = Path(os.path.normpath(here / found[0]))
        return f"{found[0].rstrip('/')}/README.md" if path in folders else found[0]

    return _LINK.sub(replaced, text)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:].removesuffix(".md")


if __name__ == "__main__":
    sys.exit(main())
