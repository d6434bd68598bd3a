"""The modules of the source tree."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

Import = ast.Import | ast.ImportFrom
Function = ast.FunctionDef | ast.AsyncFunctionDef
_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
_FOLDERS = ("*/src/*", "*/*/src/*", "*/*/*/src/*")


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of a module that define or import something, at any depth.

    Attributes:
        imports: Those that run when the module is imported.
        lazy_imports: Those inside of functions.
        type_imports: Those for type checkers, outside of functions.
        functions: Also methods, and functions inside of others.
        classes: Also those inside of others.
    """

    imports: list[Import]
    lazy_imports: list[Import]
    type_imports: list[Import]
    functions: list[Function]
    classes: list[ast.ClassDef]

    def collect(self, block: Iterable[ast.AST], *, is_lazy: bool) -> None:
        """Adds the statements of a block, and of those inside of it."""
        for statement in block:
            if isinstance(statement, Import):
                (self.lazy_imports if is_lazy else self.imports).append(statement)
            elif isinstance(statement, Function):
                self.functions.append(statement)
                self.collect(statement.body, is_lazy=True)
            elif isinstance(statement, ast.If) and _is_for_types(statement):
                found = (each for each in statement.body if isinstance(each, Import))
                self.type_imports.extend(found)
            else:
                if isinstance(statement, ast.ClassDef):
                    self.classes.append(statement)
                for name in _BLOCKS:
                    self.collect(getattr(statement, name, ()), is_lazy=is_lazy)


@dataclass(frozen=True)
class Module:
    """A file of Python.

    Attributes:
        name: Its dotted name; a package's is that of its `__init__.py`.
        path: The file.
        text: Its contents.
    """

    name: str
    path: Path
    text: str

    @cached_property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def statements(self) -> "Statements":
        found = Statements([], [], [], [], [])
        found.collect(parsed(self.path).body, is_lazy=False)
        return found

    @cached_property
    def lazy_exports(self) -> Mapping[str, str]:
        """Modules of the names that a package imports on first access, by these names.

        It imports them for type checkers only (PEP 562).
        """
        if not self.is_package:
            return {}
        return {
            name.name: each.module
            for each in self.statements.type_imports
            if isinstance(each, ast.ImportFrom) and each.module
            for name in each.names
        }

    @property
    def top(self) -> str:
        """Name of its import package."""
        return self.name.partition(".")[0]

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


Sources = Mapping[str, Module]
"""Modules by dotted name."""


@cache
def parsed(path: Path) -> ast.Module:
    """Returns the tree of a file, which is parsed once in each process."""
    return ast.parse(path.read_text("utf-8"))


def called(call: ast.Call) -> str:
    """Returns the last name of what is called; empty if it has none."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def read_sources(root: Path) -> Sources:
    """Reads all import packages of a checkout, its tools included."""
    modules = [module for folder in _packages(root) for module in _modules(folder)]
    return {module.name: module for module in modules}


def inside(sources: Sources, package: str) -> list[Module]:
    """Returns the modules of a package, itself included."""
    return [
        module
        for name, module in sources.items()
        if name == package or name.startswith(f"{package}.")
    ]


def _packages(root: Path) -> Iterator[Path]:
    for pattern in _FOLDERS:
        for folder in root.glob(pattern):
            if (folder / "__init__.py").exists() and ".venv" not in folder.parts:
                yield folder


def _modules(folder: Path) -> Iterator[Module]:
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield Module(name, path, path.read_text("utf-8"))


def _is_for_types(statement: ast.If) -> bool:
    return "TYPE_CHECKING" in ast.dump(statement.test)
