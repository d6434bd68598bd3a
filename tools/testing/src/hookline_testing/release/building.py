"""Builds an sdist of each distribution, and its wheel from the sdist.

Knows hatchling and no test: an image's build stage runs it with the sources alone.
"""

import re
import shutil
import tarfile
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import hatchling.build

from hookline_testing.distributions import Distribution, Distributions

_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|//)([^)\s]+)(?=\))")
_NOT_SOURCES = ("__pycache__", "*.egg-info", ".*", "build", "dist")
_PAGES = ("README.md", "CHANGELOG.md", "LICENSE")


def build(
    distributions: Distributions, folder: Path, repository: str = ""
) -> list[Path]:
    """Builds all distributions, which takes seconds.

    Args:
        distributions: Those of a checkout.
        folder: Where archives are put; is made, and emptied of older ones of ours.
        repository: URL of the repository, for the links of the metadata and READMEs;
            empty for none.

    Returns:
        The archives: an sdist and a wheel of each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for older in (*folder.glob("hookline*.whl"), *folder.glob("hookline*.tar.gz")):
        older.unlink()
    root = distributions["hookline"].folder
    return [
        path
        for each in distributions.values()
        for path in build_one(each, root, folder, repository)
    ]


def build_one(
    distribution: Distribution, root: Path, folder: Path, repository: str = ""
) -> tuple[Path, Path]:
    """Builds a distribution in a copy that has the repository's one licence file.

    Changes the working directory meanwhile.

    Args:
        distribution: Any.
        root: The checkout.
        folder: Where archives are put.
        repository: See `build`.

    Returns:
        The sdist and the wheel.
    """
    out = folder.resolve()
    with TemporaryDirectory() as work:
        staged = _stage(distribution, root, Path(work))
        if repository:
            _name_repository(distribution, root, staged, repository)
        with chdir(staged):
            sdist = out / hatchling.build.build_sdist(str(out))
        with tarfile.open(sdist) as archive:
            if hasattr(tarfile, "data_filter"):  # Debian 12's Python has none
                archive.extraction_filter = tarfile.data_filter
            archive.extractall(work)  # noqa: S202 - it was made above
        with chdir(Path(work) / sdist.name.removesuffix(".tar.gz")):
            wheel = out / hatchling.build.build_wheel(str(out))
    return sdist, wheel


def _stage(distribution: Distribution, root: Path, work: Path) -> Path:
    staged = work / "staged"
    if distribution.folder == root:  # all others are below it
        staged.mkdir()
        for name in ("pyproject.toml", *_PAGES):
            shutil.copy(root / name, staged)
    else:
        ignore = shutil.ignore_patterns(*_NOT_SOURCES)
        shutil.copytree(distribution.folder, staged, ignore=ignore)
        shutil.copy(root / "LICENSE", staged)
    return staged


def _name_repository(
    distribution: Distribution, root: Path, staged: Path, repository: str
) -> None:
    """Gives the staged metadata URLs, and links of its README something to lead to."""
    release = f"v{distribution.table['project']['version']}"
    below = distribution.folder.relative_to(root).as_posix()
    urls = {
        "Repository": repository,
        "Documentation": f"{repository}/tree/{release}/docs",
        "Changelog": f"{repository}/blob/{release}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
    with (staged / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("\n[project.urls]\n")
        file.writelines(f'{name} = "{url}"\n' for name, url in urls.items())
    page = staged / "README.md"
    base = f"{repository}/raw/{release}/{below}/".replace("/./", "/")
    page.write_text(_LINK.sub(rf"{base}\1", page.read_text("utf-8")), "utf-8")
