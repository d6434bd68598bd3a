"""What importing a module imports, of ours."""

import ast
from collections.abc import Iterable, Iterator

from hookline_testing.structure.sources import Import, Module, Sources


def closure(
    sources: Sources, roots: Iterable[str], *, with_lazy: bool = False
) -> list[Module]:
    """Returns the modules that one reads to know the roots, themselves included.

    These are the modules that they name in imports, and so on. Packages around them are
    not among them unless they are named: Python runs their `__init__.py`, too, but what
    these re-export says nothing about the module.

    Args:
        sources: All modules of ours.
        roots: Dotted names of modules.
        with_lazy: Whether imports inside of functions count, too.

    Raises:
        KeyError: There is no such root.
    """
    found: dict[str, Module] = {}
    waiting = [sources[root].name for root in roots]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = sources[name]
        waiting += imported(sources, sources[name], with_lazy=with_lazy)
    return list(found.values())


def imported(sources: Sources, module: Module, *, with_lazy: bool = False) -> set[str]:
    """Returns the modules of ours that a module itself names in its imports."""
    statements = module.statements
    names: set[str] = set()
    for each in statements.imports + statements.lazy_imports * with_lazy:
        names.update(_targets(sources, module, each))
    return names - {module.name}


def circles(sources: Sources) -> list[list[str]]:
    """Returns the sets of modules that import one another when they are imported."""
    graph = {name: imported(sources, module) for name, module in sources.items()}
    return [sorted(part) for part in _components(graph) if len(part) > 1]


def _targets(sources: Sources, module: Module, statement: Import) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (each.name for each in statement.names if each.name in sources)
        return
    base = _base(module, statement)
    for each in statement.names:
        if (inner := f"{base}.{each.name}") in sources:
            yield inner
        elif base in sources:
            yield base
            exported = sources[base].lazy_exports.get(each.name)
            if exported is not None and exported in sources:
                yield exported


def _base(module: Module, statement: ast.ImportFrom) -> str:
    if not statement.level:
        return statement.module or ""
    parts = module.name.split(".")
    parts = parts[: len(parts) - statement.level + module.is_package]
    return ".".join([*parts, *([statement.module] if statement.module else [])])


def _components(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """Yields the strongly connected components (Tarjan 1972), without recursion."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    work: list[tuple[str, Iterator[str]]] = []

    def enter(name: str) -> None:
        order[name] = low[name] = len(order)
        path.append(name)
        work.append((name, iter(sorted(graph[name]))))

    for start in sorted(graph.keys()):
        if start not in order:
            enter(start)
        while work:
            name, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == order[name]:
                    at = path.index(name)
                    yield path[at:]
                    del path[at:]
            elif following not in order:
                enter(following)
            elif following in path:
                low[name] = min(low[name], order[following])
