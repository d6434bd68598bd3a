"""Classes and functions of the sources: fields, lengths, names defined many times."""

import ast
from collections.abc import Iterable, Iterator

from hookline_testing.structure.sources import Function, Module


def num_fields(modules: Iterable[Module], name: str) -> int:
    """Returns the number of a class's own fields.

    Raises:
        LookupError: There is no such class, or there are several.
    """
    found = [each for each in classes(modules) if each.name == name]
    if len(found) != 1:
        raise LookupError(f"{len(found)} classes are named {name}")
    return sum(map(_is_field, found[0].body))


def definitions(modules: Iterable[Module], verb: str) -> tuple[int, int]:
    """Counts the functions and methods of a name.

    Returns:
        All of them, and those that are not a Protocol's. A method is one if its class
        has all members of a Protocol with a method of this name and these parameters.
    """
    modules = list(modules)
    every = sum(each.name == verb for each in functions(modules))
    held = [(each, _methods(each)) for each in classes(modules)]
    having = [(each, methods) for each, methods in held if verb in methods]
    asking = [methods for each, methods in having if _is_protocol(each)]
    explained = [
        own
        for _, own in having
        if any(own.keys() >= each.keys() and own[verb] == each[verb] for each in asking)
    ]
    return every, every - len(explained)


def long_functions(modules: Iterable[Module], limit: int) -> int:
    """Counts the functions with more lines than the limit, parameters left out.

    A kernel for GPUs has each stride and constant as a parameter of its own.
    """
    return sum(_body_length(each) > limit for each in functions(modules))


def long_constructors(modules: Iterable[Module], limit: int) -> int:
    """Counts the constructors with more lines than the limit."""
    named = (each for each in functions(modules) if each.name == "__init__")
    return sum(_length(each) > limit for each in named)


def classes(modules: Iterable[Module]) -> Iterator[ast.ClassDef]:
    return (each for module in modules for each in module.statements.classes)


def functions(modules: Iterable[Module]) -> Iterator[Function]:
    return (each for module in modules for each in module.statements.functions)


def _length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _body_length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.body[0].lineno + 1


def _methods(holder: ast.ClassDef) -> dict[str, list[str]]:
    """Returns the names of the parameters of each method."""
    return {
        each.name: [one.arg for one in [*each.args.args, *each.args.kwonlyargs]]
        for each in holder.body
        if isinstance(each, Function)
    }


def _is_protocol(holder: ast.ClassDef) -> bool:
    return any("Protocol" in ast.unparse(base) for base in holder.bases)


def _is_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.dump(
        node.annotation
    )
