"""A folder for test plugins, discovered like installed ones."""

import importlib
import json
import os
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Self

_RECORDER = """
from hookline import hookimpl
from hookline_testing import RecordingLogger

logger = RecordingLogger()


@hookimpl
def create_stat_logger(context):
    return logger
"""


class PluginSite:
    """A context manager that puts the folder first on the import path.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sources: list[str] = []

    def install(
        self,
        name: str,
        source: str,
        *,
        group: str = "hookline.loggers",
        attribute: str | None = None,
    ) -> None:
        """Installs `source` as module and plugin `name` of distribution `dist-NAME`.

        The entry point names the module, or an `attribute` of it.
        """
        (self._folder / f"{name}.py").write_text(source, "utf-8")
        value = f"{name}:{attribute}" if attribute else name
        self._describe(f"dist-{name}", "1.0", {group: {name: value}})

    def install_project(self, folder: Path) -> None:
        """Installs a package from its folder, as `pip install -e` does."""
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
        about = project["project"]
        metadata = self._describe(
            about["name"],
            about["version"],
            about.get("entry-points", {}),
            requires=about.get("dependencies", ()),
        )
        direct = {"url": folder.absolute().as_uri(), "dir_info": {"editable": True}}
        (metadata / "direct_url.json").write_text(json.dumps(direct), "utf-8")
        self._sources.append(str(folder / "src"))
        sys.path.insert(0, self._sources[-1])
        importlib.invalidate_caches()

    def _describe(
        self,
        distribution: str,
        version: str,
        groups: Mapping[str, Mapping[str, str]],
        *,
        requires: Iterable[str] = (),
    ) -> Path:
        stem = distribution.replace("-", "_")
        metadata = self._folder / f"{stem}-{version}.dist-info"
        metadata.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {distribution}"]
        lines += [f"Version: {version}"]
        lines += [f"Requires-Dist: {each}" for each in requires]
        (metadata / "METADATA").write_text("\n".join([*lines, ""]), "utf-8")
        entries: list[str] = []
        for group, own in groups.items():
            entries += [f"[{group}]"]
            entries += [f"{name} = {value}" for name, value in own.items()]
        (metadata / "entry_points.txt").write_text("\n".join([*entries, ""]), "utf-8")
        importlib.invalidate_caches()
        return metadata

    def install_recorder(self, name: str = "recorder") -> None:
        """Installs a stat logger that records every call."""
        self.install(name, _RECORDER)

    def calls(self, name: str = "recorder") -> list[tuple[str, object]]:
        """Returns the calls that the installed logger has recorded."""
        calls: list[tuple[str, object]] = self.module(name).logger.calls
        return calls

    def module(self, name: str) -> ModuleType:
        return importlib.import_module(name)

    def forget(self) -> None:
        """Removes the plugins' modules, so that they are imported again."""
        folders = (str(self._folder), *self._sources)
        below = tuple(f"{folder}{os.sep}" for folder in folders)  # thousands of files
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(below):
                del sys.modules[name]

    def __enter__(self) -> Self:
        sys.path.insert(0, str(self._folder))
        importlib.invalidate_caches()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for folder in (str(self._folder), *self._sources):
            sys.path.remove(folder)
        self.forget()
