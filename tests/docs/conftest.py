"""What readers of the docs do with an example: build it, install it, run it."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hookline_testing.clean_environment import CleanEnvironment
from hookline_testing.distributions import (
    read_distribution,
    read_distributions,
    with_needs,
)
from hookline_testing.release.building import build_one

ROOT = Path(__file__).parents[2]
_BESIDE = ("hookline-server", "hookline-demo-model", "hookline-simulated")
"""What examples are tried with, whatever they depend on."""


class Installed:
    """An example in an environment of its own, beside what of ours it depends on.

    Attributes:
        folder: Of the environment.
        project: Where the example's files are.
    """

    def __init__(self, environment: CleanEnvironment, project: Path) -> None:
        self._environment = environment
        self.folder, self.project = environment.folder, project

    def run(self, command: str, *arguments: str, cwd: Path | None = None) -> str:
        """All that a command of the environment printed; it must succeed."""
        return self._environment.run(command, *arguments, cwd=cwd)


@pytest.fixture
def install_example(tmp_path: Path) -> Callable[[Mapping[str, str]], Installed]:
    """Builds wheels and installs them; takes the example's files by name."""

    def install(files: Mapping[str, str]) -> Installed:
        project, wheels = tmp_path / "project", tmp_path / "wheels"
        project.mkdir()
        wheels.mkdir()
        for name, source in files.items():
            (project / name).write_text(source, "utf-8")
        example, ours = read_distribution(project), read_distributions(ROOT)
        names = with_needs(ours, {*_BESIDE, *example.needs})
        chosen = [*(ours[name] for name in sorted(names)), example]
        environment = CleanEnvironment(tmp_path / "venv")
        environment.install(build_one(each, ROOT, wheels)[1] for each in chosen)
        return Installed(environment, project)

    return install


@pytest.fixture
def files_of() -> Callable[[str], dict[str, str]]:
    """The files of a page: names in a line of their own, each before its block."""

    def find(page: str) -> dict[str, str]:
        text = (ROOT / "docs" / page).read_text("utf-8")
        block = r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$"
        return dict(re.findall(block, text, flags=re.MULTILINE | re.DOTALL))

    return find
