"""Checks a plugin against the hook specifications before it is registered.

Whoever asks, a server that starts, `hookline plugins doctor` or a plugin's own tests,
is told the same of a mistake: what it is, in which line, and what to write instead.
"""

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from dis import Instruction, get_instructions
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType

import pluggy

from hookline_registry.declarations import at, line_of
from hookline_registry.isolation import Failure, isolate
from hookline_registry.kind import possible_hooks
from hookline_registry.spelling import closest

Place = tuple[str, int | None]
"""A file and a line."""

_TEXT = frozenset({"BUILD_STRING", "FORMAT_VALUE", "FORMAT_SIMPLE"})


def validate(project: str, hookspecs: ModuleType, plugin: object) -> None:
    """Reads a plugin's hooks in a plugin manager of its own, so that others are safe.

    What its factories make is checked too, as far as they name its class.

    Raises:
        pluggy.PluginValidationError: It does not fit the specifications.
    """
    _Validation(project, hookspecs).check(plugin)
    manager = pluggy.PluginManager(project)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin, name="plugin")


@lru_cache(maxsize=16)
def specs_of(
    project: str, hookspecs: ModuleType
) -> Mapping[str, Callable[..., object]]:
    """Returns the specified hooks by name."""
    manager = pluggy.PluginManager(project)
    manager.add_hookspecs(hookspecs)
    return {
        name: caller.spec.function
        for name, caller in vars(manager.hook).items()
        if not name.startswith("_")
    }


def makes_class(spec: Callable[..., object]) -> bool:
    """Whether a hook is specified to return a class."""
    return str(spec.__annotations__.get("return", "")).startswith("type[")


def class_returned(hook: str, made: type, place: str) -> str:
    """Returns the sentence for a factory that returns a class."""
    name = made.__name__
    reason = f"{hook} returned the class {name}, not an instance of it"
    return f"{reason}: write `return {name}(…)`{place}"


def refuse_unmarked(project: str, hookspecs: ModuleType, plugin: object) -> None:
    """Raises an error for a function with a hook's name but without the marker."""
    for hook in specs_of(project, hookspecs):
        if (function := _own_function(plugin, hook)) is None:
            continue
        if not hasattr(function, f"{project}_impl"):
            raise pluggy.PluginValidationError(
                plugin,
                f"{hook!r} has a hook's name and lacks the marker @hookimpl: write "
                f"`@hookimpl` above it{line_of(function)}",
            )


def returned_class(function: Callable[..., object]) -> tuple[type, Place] | None:
    """Returns the class that a function returns as far as its code tells, uncalled."""
    if not isinstance(function, FunctionType):
        return None
    for value, place in _returned(function.__code__):
        if value.opname == "LOAD_GLOBAL":
            found = function.__globals__.get(value.argval)
            if isinstance(found, type):
                return found, place
    return None


class _Validation:
    """The checks of a plugin, and of the classes that its factories name."""

    def __init__(self, project: str, hookspecs: ModuleType) -> None:
        self._project = project
        self._hookspecs = hookspecs
        self._specs = specs_of(project, hookspecs)
        self._handlers = getattr(hookspecs, "HANDLERS", {})
        self._checked: list[object] = []

    def check(self, plugin: object) -> None:
        """Raises `PluginValidationError` for the first mistake."""
        self._checked.append(plugin)
        refuse_unmarked(self._project, self._hookspecs, plugin)
        found = dict(self._implementations(plugin))
        for hook, function in found.items():
            self._check_hook(plugin, hook, function)
        if not found.keys() & self._specs.keys():
            raise self._error(plugin, f"it implements no hook of {self._project}")
        for hook in found.keys() & self._specs.keys():
            self._check_handlers(plugin, hook, found[hook])
            for made in self._made_by(found[hook]):
                if made not in self._checked:
                    self.check(made)

    def _implementations(
        self, plugin: object
    ) -> Iterator[tuple[str, Callable[..., object]]]:
        for name in possible_hooks(plugin):
            function = getattr(plugin, name, None)
            options = getattr(function, f"{self._project}_impl", None)
            if isinstance(options, dict) and inspect.isroutine(function):
                hook = options.get("specname") or name
                if hook in self._specs or not options.get("optionalhook"):
                    yield hook, function

    def _check_hook(
        self, plugin: object, hook: str, function: Callable[..., object]
    ) -> None:
        if (spec := self._specs.get(hook)) is None:
            close = closest(hook, self._specs)
            hint = f"; did you mean {close!r}?" if close else ""
            raise self._error(
                plugin, f"there is no hook {hook!r}{hint}{line_of(function)}"
            )
        if inspect.iscoroutinefunction(function):
            raise self._error(
                plugin,
                f"hook {hook!r} is a coroutine; hooks are plain functions: write `def` "
                f"for `async def`{line_of(function)}",
            )
        known = _arguments(spec)
        for argument in _arguments(function):
            if argument not in known and argument not in ("self", "cls"):
                raise self._error(
                    plugin,
                    f"hook {hook!r} has the argument {argument!r}, which it does not "
                    f"get: it gets {', '.join(known) or 'none'}{line_of(function)}",
                )
        if not makes_class(spec) and (found := returned_class(function)) is not None:
            made, place = found
            raise self._error(plugin, class_returned(hook, made, at(*place)))

    def _check_handlers(
        self, plugin: object, hook: str, function: Callable[..., object]
    ) -> None:
        """Refuses what a hook hands over to be called, and what returns text."""
        instead = self._handlers.get(hook)
        plain = getattr(function, "__func__", function)
        if instead is None or not isinstance(plain, FunctionType):
            return
        owner = plugin if isinstance(plugin, type) else type(plugin)
        for name in _taken(plain):
            handler = inspect.getattr_static(owner, name, plain.__globals__.get(name))
            if not isinstance(handler, FunctionType):
                continue
            if (place := _returned_text(handler)) is not None:
                raise self._error(
                    plugin,
                    f"{handler.__name__} returns str, and {hook} hands it over: write "
                    f"`return {instead}`{at(*place)}",
                )

    def _made_by(self, factory: Callable[..., object]) -> Iterator[type]:
        """Yields the classes with hooks that a factory names."""
        plain = getattr(factory, "__func__", factory)
        if not isinstance(plain, FunctionType):
            return
        hints = isolate(typing.get_type_hints, plain)
        annotated = None if isinstance(hints, Failure) else hints.get("return")
        named = (plain.__globals__.get(name) for name in plain.__code__.co_names)
        for each in {annotated, *typing.get_args(annotated), *filter(_is_class, named)}:
            if isinstance(each, type) and dict(self._implementations(each)):
                yield each

    def _error(self, plugin: object, reason: str) -> Exception:
        return pluggy.PluginValidationError(plugin, reason)


def _is_class(value: object) -> bool:
    return isinstance(value, type)


def _arguments(function: Callable[..., object]) -> tuple[str, ...]:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount]


def _own_function(plugin: object, name: str) -> FunctionType | None:
    """Returns a function that a module defines, or an object's class as a method."""
    if isinstance(plugin, ModuleType):
        found = vars(plugin).get(name)
        is_own = inspect.isfunction(found) and found.__module__ == plugin.__name__
        return found if is_own else None
    owner = plugin if isinstance(plugin, type) else type(plugin)
    bases = (vars(base) for base in owner.__mro__)
    static = next((each[name] for each in bases if name in each), None)
    return static if inspect.isfunction(static) else None


def _returned_text(function: FunctionType) -> Place | None:
    """Returns where a function returns text, or is declared to."""
    for value, place in _returned(function.__code__):
        if value.opname in _TEXT or (isinstance(value.argval, str) and _const(value)):
            return place
    if function.__annotations__.get("return") in (str, "str"):
        return function.__code__.co_filename, function.__code__.co_firstlineno
    return None


def _taken(function: FunctionType) -> Iterator[str]:
    """Yields the names of what a function takes and does not call."""
    for each in get_instructions(function.__code__):
        is_called = "NULL" in each.argrepr
        if each.opname in ("LOAD_ATTR", "LOAD_GLOBAL") and not is_called:
            yield each.argval


def _const(value: Instruction) -> bool:
    return value.opname in ("LOAD_CONST", "RETURN_CONST")


def _returned(code: CodeType) -> Iterator[tuple[Instruction, Place]]:
    before: Instruction | None = None
    for each in get_instructions(code):
        value = each if each.opname == "RETURN_CONST" else before
        if each.opname in ("RETURN_VALUE", "RETURN_CONST") and value is not None:
            line = value.positions.lineno if value.positions else None
            yield value, (code.co_filename, line)
        before = each
