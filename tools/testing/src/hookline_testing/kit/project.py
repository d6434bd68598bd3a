"""The files of a new plugin's package, made of the template of its kind."""

import ast
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hookline.exceptions import HooklineError
from hookline.plugins.kinds import KINDS
from hookline_registry import PluginKind
from hookline_registry.spelling import unknown

TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_PREFIX = "hookline-"
_STANDARD = frozenset({"hookline", "torch", "numpy", "msgspec"})

_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{distribution}"
version = "0.1.0"
description = "{summary}"
requires-python = ">=3.11"
dependencies = [
{dependencies}
]

[project.optional-dependencies]
test = ["hookline-testing", "pytest"]

[project.entry-points."{group}"]
{name} = "{module}"

[tool.hatch.build.targets.wheel]
packages = ["src/{module}"]
"""

_TEST = '''\
"""What Hookline expects of a {kind}."""

from hookline_testing.conformance import assert_conforms


def test_{identifier}_conforms() -> None:
    """Its hooks, options, values, threads and end are as Hookline expects them."""
    assert_conforms("{kind}", "{name}")
'''

_README = """\
# {distribution}

{summary}

```console
$ pip install -e '.[test]'
$ hookline plugins doctor
$ python -m pytest
```
"""


class NewPluginError(HooklineError):
    """A package that cannot be written."""


def kind_of(name: str) -> PluginKind:
    """Returns the kind of that name; raises `NewPluginError` if there is none."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise NewPluginError(unknown("kind", name, sorted(kind.name for kind in KINDS)))


def files_of(kind: PluginKind, given: str) -> Mapping[str, str]:
    """Returns the text of each file of a package, by its path in the package.

    Args:
        kind: The plugin's kind.
        given: Name of the package: small letters, digits, `-` and `_`. The plugin's is
            the same without `hookline-` before it.

    Raises:
        NewPluginError: It is no such name.
    """
    if not _NAME.fullmatch(given):
        raise NewPluginError(
            f"{given!r} is no name of a package: use small letters, digits and -"
        )
    name = given.removeprefix(_PREFIX)
    identifier = name.replace("-", "_")
    module = given.replace("-", "_")
    source = _renamed((TEMPLATES / f"{kind.name}.py").read_text("utf-8"), name)
    summary = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    facts = {
        "distribution": given,
        "module": module,
        "name": name,
        "identifier": identifier,
        "kind": kind.name,
        "group": kind.group,
        "summary": summary,
        "dependencies": "\n".join(f'    "{each}",' for each in _required_by(source)),
    }
    return {
        "pyproject.toml": _PYPROJECT.format(**facts),
        "README.md": _README.format(**facts),
        f"src/{module}/__init__.py": source,
        f"src/{module}/py.typed": "",
        f"tests/test_{identifier}.py": _TEST.format(**facts),
    }


def write_package(kind: PluginKind, given: str, parent: Path) -> Path:
    """Writes a package into a folder of its name; returns the folder.

    Raises:
        NewPluginError: The name is none, or the folder is there.
    """
    files = files_of(kind, given)
    folder = parent / given
    try:
        folder.mkdir(parents=True)
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
    except OSError as error:
        raise NewPluginError(f"{folder} cannot be written: {error.strerror}") from error
    return folder


def _renamed(source: str, name: str) -> str:
    words = re.split(r"[-_]", name)
    camel = "".join(word.capitalize() for word in words)
    source = re.sub(r"\bSample(?=[A-Z])", camel, source)
    source = re.sub(r"\bsample_(?=\w)", "_".join(words) + "_", source)
    return re.sub(r"\bsample\b", name, source)


def _required_by(source: str) -> list[str]:
    """Returns the requirements of a module: those of what it imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
    ours = {each for each in found if each.startswith("hookline_")}
    others = found & _STANDARD - {"hookline"}
    distributions = {"hookline-core", *(each.replace("_", "-") for each in ours)}
    return sorted([*others, *map(_bounded, distributions)])


def _bounded(distribution: str) -> str:
    """Returns the requirement of the installed minor version."""
    try:
        major, minor, *_ = version(distribution).split(".")
    except PackageNotFoundError:
        return distribution
    return f"{distribution}>={major}.{minor},<{major}.{int(minor) + 1}"
