"""Real distributions and hook specifications for the registry's tests."""

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

SPECS = """
import pluggy

hookspec = pluggy.HookspecMarker("toy")
hookimpl = pluggy.HookimplMarker("toy")


@hookspec
def step_finished(step):
    ...


@hookspec
def request_finished(request):
    ...


@hookspec(firstresult=True)
def create_logger(context):
    ...
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path; what it brought is forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)

    yield folder

    for name in set(sys.modules) - before:
        if _is_below(sys.modules[name], folder):
            del sys.modules[name]


@pytest.fixture
def specs(site: Path) -> ModuleType:
    """A module with three hook specifications, importable as `toy_specs`."""
    (site / "toy_specs.py").write_text(SPECS)
    importlib.invalidate_caches()
    return importlib.import_module("toy_specs")


@pytest.fixture
def install(site: Path) -> Callable[..., None]:
    """Installs a distribution: its metadata, its entry points and its modules."""

    def install(
        distribution: str,
        *,
        entries: Mapping[str, str],
        modules: Mapping[str, str] | None = None,
        version: str = "1.0",
        group: str = "toy.loggers",
        folder: Path = site,
    ) -> None:
        stem = distribution.replace("-", "_")
        metadata = folder / f"{stem}-{version}.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        )
        lines = [f"{name} = {value}" for name, value in entries.items()]
        (metadata / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
        for name, source in (modules or {}).items():
            (folder / f"{name}.py").write_text(source)
        importlib.invalidate_caches()

    return install


def _is_below(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(folder)
