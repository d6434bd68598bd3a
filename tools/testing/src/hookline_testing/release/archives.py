"""Tells what an index, an installer or a reader would miss in a wheel or an sdist."""

import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.metadata import InvalidMetadata, Metadata
from trove_classifiers import classifiers as known_classifiers


def problems_of(path: Path) -> list[str]:
    """Returns what is wrong with an sdist or wheel, a sentence each."""
    names, raw = _content(path)
    try:
        metadata = Metadata.from_email(raw, validate=True)
    except ExceptionGroup as error:
        return [str(each) for each in error.exceptions]
    except InvalidMetadata as error:
        return [str(error)]
    return [*_metadata_problems(metadata), *_content_problems(path, names, metadata)]


def _content(path: Path) -> tuple[set[str], bytes]:
    """Returns the files' names, without the archive's own folder, and the metadata."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            [metadata] = [each for each in names if each.endswith("-info/METADATA")]
            return set(names), wheel.read(metadata)
    with tarfile.open(path) as sdist:
        found = {each.name.split("/", 1)[-1]: each for each in sdist.getmembers()}
        file = sdist.extractfile(found["PKG-INFO"])
        if file is None:
            raise ValueError(f"{path.name}: PKG-INFO is no file")
        return set(found), file.read()


def _metadata_problems(metadata: Metadata) -> Iterator[str]:
    if not metadata.summary or not metadata.summary.endswith("."):
        yield "the summary is no sentence"
    if not metadata.description or metadata.description_content_type != "text/markdown":
        yield "there is no README in Markdown"
    if metadata.license_expression is None:
        yield "there is no SPDX expression of the licence"
    if metadata.requires_python is None:
        yield "it does not say which versions of Python it needs"
    if not metadata.keywords:
        yield "there are no keywords"
    classifiers = set(metadata.classifiers or ())
    yield from (f"nobody knows {each!r}" for each in classifiers - known_classifiers)
    if not any(each.startswith("Programming Language") for each in classifiers):
        yield "there are no classifiers of versions of Python"
    if any(each.startswith("License ::") for each in classifiers):
        yield "the licence is an expression and a classifier"


def _content_problems(path: Path, names: set[str], metadata: Metadata) -> Iterator[str]:
    licences = [str(each) for each in metadata.license_files or ()]
    if not licences:
        yield "the licence has no file"
    for each in licences:
        if not any(name.endswith(each) for name in names):
            yield f"{each} is missing"
    for each in sorted(names):
        if "__pycache__" in each or each.endswith((".pyc", ".so")):
            yield f"{each} is no source"
    if path.suffix != ".whl":
        return
    if not path.name.endswith("-py3-none-any.whl"):
        yield "it depends on a machine"
    packages = {each.split("/")[0] for each in names if "-info/" not in each}
    for package in sorted(packages):
        if f"{package}/py.typed" not in names:
            yield f"{package} has no py.typed"
