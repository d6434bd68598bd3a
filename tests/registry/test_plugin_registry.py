"""Loading the plugins that were chosen, and calling one of them."""

import re
import sys
from collections.abc import Callable, Generator
from types import ModuleType
from typing import Literal

import pluggy
import pytest

from hookline_registry import (
    BrokenPluginError,
    PluginKind,
    PluginRegistry,
    RegistryError,
    UnknownPluginError,
)
from hookline_registry.kind import has_hooks, possible_hooks

LOGGERS = PluginKind(name="logger", group="toy.loggers", hook="create_logger")
PROPOSERS = PluginKind(name="proposer", group="toy.proposers", hook="create_logger")
MODELS = PluginKind(
    name="model", group="toy.loggers", hook="create_logger", bare="factory"
)
hookimpl = pluggy.HookimplMarker("toy")
GOOD = """
from toy_specs import hookimpl

@hookimpl
def step_finished(step):
    return step + 1

@hookimpl
def create_logger(context):
    return ["logger", context]
"""
CLASS = """
from toy_specs import hookimpl

class Mine:
    @hookimpl
    def step_finished(self, step):
        ...
"""


class Counter:
    """A plugin with a memory."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    @hookimpl
    def request_finished(self, request: object) -> None:
        self.seen.append(request)


@pytest.fixture
def registry(specs: ModuleType) -> PluginRegistry:
    return PluginRegistry("toy", specs)


def one_hook(definition: str) -> str:
    return f"from toy_specs import hookimpl\n\n@hookimpl\n{definition}:\n    ...\n"


def test_only_the_named_plugin_is_imported(
    install: Callable[..., None], registry: PluginRegistry
) -> None:
    """Loading one plugin leaves its neighbours alone, whatever they would do."""
    modules = {"toy_good": GOOD, "toy_bad": "raise SystemExit('imported')"}
    install("toy-two", entries={"good": "toy_good", "bad": "toy_bad"}, modules=modules)

    name = registry.load(LOGGERS, "good")

    assert name == "good"
    assert registry.names == ("good",)
    assert registry.hooks_of("good") == ("create_logger", "step_finished")
    assert "toy_bad" not in sys.modules


def test_loading_twice_registers_once(
    install: Callable[..., None], registry: PluginRegistry
) -> None:
    """Naming a plugin twice is no error and makes no second one."""
    install("toy-good", entries={"good": "toy_good"}, modules={"toy_good": GOOD})

    names = [registry.load(LOGGERS, "good"), registry.load(LOGGERS, "good")]

    assert names == ["good", "good"]
    assert registry.names == ("good",)


def test_equal_names_in_two_groups_do_not_clash(
    install: Callable[..., None], registry: PluginRegistry
) -> None:
    """A logger and a proposer of one name can both be loaded."""
    install("toy-good", entries={"good": "toy_good"}, modules={"toy_good": GOOD})
    install("toy-also", entries={"good": "toy_good"}, group="toy.proposers")

    names = [registry.load(LOGGERS, "good"), registry.load(PROPOSERS, "good")]

    assert names == ["good", "toy.proposers:good"]
    assert registry.names == tuple(names)
    assert registry.load(PROPOSERS, "good") == "toy.proposers:good"


def test_an_unknown_plugin_is_an_error(registry: PluginRegistry) -> None:
    """A name that is not installed cannot be loaded."""
    with pytest.raises(UnknownPluginError, match="plugin 'nobody' in"):
        registry.load(LOGGERS, "nobody")


@pytest.mark.parametrize(
    ("source", "cause", "message"),
    [
        ("import toy_missing", ModuleNotFoundError, "No module named 'toy_missing'"),
        ("def (:", SyntaxError, "invalid syntax"),
        ("1 / 0", ZeroDivisionError, "division by zero"),
        ("import sys; sys.exit(3)", SystemExit, "SystemExit: 3"),
        ("class Odd(BaseException): ...\nraise Odd('out')", BaseException, "Odd: out"),
    ],
)
def test_a_plugin_that_does_not_import_names_its_distribution(
    install: Callable[..., None],
    registry: PluginRegistry,
    source: str,
    cause: type[BaseException],
    message: str,
) -> None:
    """The error names the broken distribution, and shows and keeps the cause."""
    modules = {"toy_broken": source}
    install("toy-broken", entries={"x": "toy_broken"}, modules=modules, version="4.2")

    with pytest.raises(BrokenPluginError, match=re.escape(message)) as caught:
        registry.load(LOGGERS, "x")

    assert caught.value.plugin == "x"
    assert caught.value.distribution == "toy-broken 4.2"
    assert "toy-broken 4.2" in str(caught.value)
    assert isinstance(caught.value.__cause__, cause)
    assert registry.names == ()


@pytest.mark.parametrize("value", ["toy_good:nothing", "toy_good:", "not a module!"])
def test_an_entry_point_to_nowhere_is_an_error(
    install: Callable[..., None], registry: PluginRegistry, value: str
) -> None:
    """A value that names no module or no attribute of it is the plugin's fault."""
    install("toy-good", entries={"good": value}, modules={"toy_good": GOOD})

    with pytest.raises(BrokenPluginError, match="of toy-good"):
        registry.load(LOGGERS, "good")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (one_hook("def step_finishd(step)"), "'step_finishd'; did you mean 'step_fin"),
        (one_hook("def xyz(step)"), "no hook 'xyz'"),
        (one_hook("def step_finished(step, engine)"), "the argument 'engine'"),
        (one_hook("async def step_finished(step)"), "'step_finished' is a coroutine"),
        ("step_finished = 1", "implements no hook of toy"),
        (f"{GOOD}\ndef request_finished(request): ...", "lacks the marker @hookimpl"),
    ],
)
def test_a_plugin_that_does_not_fit_the_hooks_is_an_error(
    install: Callable[..., None],
    registry: PluginRegistry,
    source: str,
    message: str,
) -> None:
    """Misspelt hooks and wrong arguments are errors, never silently unused."""
    install("toy-odd", entries={"odd": "toy_odd"}, modules={"toy_odd": source})

    with pytest.raises(BrokenPluginError, match=re.escape(message)) as caught:
        registry.load(LOGGERS, "odd")

    assert caught.value.distribution == "toy-odd 1.0"
    assert registry.names == ()


def test_a_misfit_leaves_the_others_alone(
    install: Callable[..., None], registry: PluginRegistry
) -> None:
    """After one plugin was refused the next one loads and works."""
    modules = {"toy_good": GOOD, "toy_odd": one_hook("def step_finishd(step)")}
    install("toy-two", entries={"good": "toy_good", "odd": "toy_odd"}, modules=modules)
    with pytest.raises(BrokenPluginError):
        registry.load(LOGGERS, "odd")

    registry.load(LOGGERS, "good")

    assert registry.call_one("good", "step_finished", step=1) == [2]


def test_fewer_arguments_and_optional_hooks_are_fine(registry: PluginRegistry) -> None:
    """A plugin takes what it needs, and may know hooks of a later version."""

    class Modest:
        @hookimpl
        def step_finished(self) -> str:
            return "done"

        @hookimpl(optionalhook=True)
        def engine_upgraded(self) -> None: ...

    registry.register(Modest(), "modest")

    assert registry.hooks_of("modest") == ("step_finished",)
    assert registry.call_one("modest", "step_finished", step=1) == ["done"]


def test_create_reaches_one_plugin_only(
    install: Callable[..., None], registry: PluginRegistry
) -> None:
    """A factory hook is asked of the chosen plugin, though others have it too."""
    other = GOOD.replace("logger", "impostor").replace(
        "create_impostor", "create_logger"
    )
    modules = {"toy_good": GOOD, "toy_other": other}
    entries = {"good": "toy_good", "other": "toy_other"}
    install("toy-two", entries=entries, modules=modules)
    registry.load(LOGGERS, "other")
    registry.load(LOGGERS, "good")

    made = registry.create("good", "create_logger", context=7)

    assert made == ["logger", 7]


def test_create_without_the_hook_gives_none(registry: PluginRegistry) -> None:
    """A plugin need not have a factory."""
    registry.register(Counter(), "counter")

    assert registry.create("counter", "create_logger", context=7) is None


def test_a_failing_factory_is_a_broken_plugin(
    install: Callable[..., None], registry: PluginRegistry
) -> None:
    """An error in a factory names the hook and the distribution, with the cause."""
    source = one_hook("def create_logger(context)") + "    context.nothing\n"
    install("toy-odd", entries={"odd": "toy_odd"}, modules={"toy_odd": source})
    registry.load(LOGGERS, "odd")

    with pytest.raises(BrokenPluginError, match="create_logger: Attr") as caught:
        registry.create("odd", "create_logger", context=7)

    assert caught.value.distribution == "toy-odd 1.0"
    assert isinstance(caught.value.__cause__, AttributeError)


def test_a_factory_that_returns_a_class_is_an_error(registry: PluginRegistry) -> None:
    """A factory that forgot to call the class is an error at creation."""

    class Careless:
        @hookimpl
        def create_logger(self, context: object) -> object:
            return type(context)

    registry.register(Careless(), "careless")

    with pytest.raises(BrokenPluginError, match="returned the class int, not an inst"):
        registry.create("careless", "create_logger", context=7)


def test_a_method_without_its_marker_is_an_error(registry: PluginRegistry) -> None:
    """An unmarked method with a hook's name is an error, also if inherited."""

    class Base:
        def step_finished(self, step: object) -> None: ...

    class Forgetful(Base, Counter):
        pass

    with pytest.raises(BrokenPluginError, match=r"'step_finished' .* lacks the marker"):
        registry.register(Forgetful(), "forgetful")


def test_a_module_may_import_what_has_a_hooks_name(
    install: Callable[..., None], registry: PluginRegistry
) -> None:
    """A function of another module is no forgotten hook."""
    source = f"{GOOD}\nfrom toy_help import request_finished"
    helping = {"toy_help": "def request_finished(request): ...", "toy_good": source}
    install("toy-good", entries={"good": "toy_good"}, modules=helping)

    registry.load(LOGGERS, "good")

    assert registry.hooks_of("good") == ("create_logger", "step_finished")


def test_a_class_can_be_taken_from_the_path(
    install: Callable[..., None], registry: PluginRegistry
) -> None:
    """A class by module and name is created by the caller's factory and registered."""
    install("toy-path", entries={}, modules={"toy_path": CLASS})
    made: list[type] = []

    def make(cls: type) -> object:
        made.append(cls)
        plugin: object = cls()
        return plugin

    names = {registry.load_path("toy_path:Mine", make) for _ in range(2)}

    assert names == {"toy_path:Mine"}
    assert [cls.__name__ for cls in made] == ["Mine"]
    assert registry.hooks_of("toy_path:Mine") == ("step_finished",)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("toy_good", "module:Class"),
        ("toy_good:", "module:Class"),
        (":Mine", "module:Class"),
        ("toy_nowhere:Mine", "No module named 'toy_nowhere'"),
        ("toy_good:Mine", "has no attribute 'Mine'"),
        ("toy_good:step_finished", "not a class"),
        ("fractions:Fraction", "implements no hook"),
        ("builtins:memoryview", "TypeError"),
    ],
)
def test_a_path_to_no_plugin_is_an_error(
    install: Callable[..., None], registry: PluginRegistry, path: str, message: str
) -> None:
    """A wrong path, or a class that is not a plugin, is an error with a reason."""
    install("toy-good", entries={}, modules={"toy_good": GOOD})

    with pytest.raises(BrokenPluginError, match=re.escape(message)) as caught:
        registry.load_path(path, lambda cls: cls())

    assert caught.value.plugin == path


def test_a_name_can_be_registered_once(registry: PluginRegistry) -> None:
    """Two objects cannot share a name."""
    registry.register(Counter(), "counter")

    with pytest.raises(RegistryError, match="'counter' already"):
        registry.register(Counter(), "counter")


def test_unregistered_names_are_an_error(registry: PluginRegistry) -> None:
    """Asking for a plugin that was never registered is an error, not a silence."""
    with pytest.raises(RegistryError, match="registered as 'ghost'"):
        registry.hooks_of("ghost")


@pytest.mark.parametrize(
    ("bare", "wanted"), [("factory", "made of 7"), ("value", "function")]
)
def test_an_entry_point_without_hooks_stands_for_the_hook_of_its_kind(
    install: Callable[..., None],
    registry: PluginRegistry,
    bare: Literal["factory", "value"],
    wanted: str,
) -> None:
    """A factory is called by the hook, a value is returned by it."""
    source = "def make(context):\n    return f'made of {context}'\n"
    install("toy-bare", entries={"x": "toy_bare:make"}, modules={"toy_bare": source})
    kind = PluginKind(name="k", group="toy.loggers", hook="create_logger", bare=bare)

    made = registry.create(registry.load(kind, "x"), "create_logger", context=7)

    assert made == wanted or type(made).__name__ == wanted
    assert registry.hooks_of("x") == ("create_logger",)


def test_a_factory_entry_point_must_be_callable(
    install: Callable[..., None], registry: PluginRegistry
) -> None:
    """An entry point to a module is refused if a factory is needed."""
    install("toy-model", entries={"demo": "toy_model"}, modules={"toy_model": ""})

    with pytest.raises(BrokenPluginError, match="neither a class nor a function"):
        registry.load(MODELS, "demo")


def test_a_plugin_that_was_replaced_is_loaded_again(
    install: Callable[..., None], registry: PluginRegistry
) -> None:
    """If its module is another one now, the old one is forgotten."""
    install("toy-good", entries={"good": "toy_good"}, modules={"toy_good": GOOD})
    registry.load(LOGGERS, "good")
    old = sys.modules.pop("toy_good")

    registry.load(LOGGERS, "good")

    assert sys.modules["toy_good"] is not old
    assert registry.names == ("good",)
    assert registry.call_one("good", "step_finished", step=1) == [2]


def test_wrappers_of_other_plugins_surround_a_call(registry: PluginRegistry) -> None:
    """A call reaches one plugin, through all wrappers of the hook."""

    class Doubling:
        @hookimpl(wrapper=True)
        def create_logger(self) -> Generator[None, int, int]:
            made = yield
            return 2 * made

    class Maker:
        def __init__(self, made: int) -> None:
            self.made = made

        @hookimpl
        def create_logger(self) -> int:
            return self.made

    for name, plugin in (("a", Maker(3)), ("b", Maker(5)), ("twice", Doubling())):
        registry.register(plugin, name)

    assert registry.create("a", "create_logger", context=None) == 6
    assert registry.create("b", "create_logger", context=None) == 10


def test_an_unregistered_plugin_is_not_called(registry: PluginRegistry) -> None:
    """Its name is free again."""
    first, second = Counter(), Counter()
    registry.register(first, "counter")
    registry.unregister("counter")
    registry.register(second, "counter")

    registry.call_one("counter", "request_finished", request=1)

    assert (first.seen, second.seen) == ([], [1])


def test_attributes_that_cannot_be_read_are_no_hooks() -> None:
    """Before 3.11.3 a dataclass with slots has one of Python's own."""

    class Slotted:
        @property
        def __weakref__(self) -> object:
            raise TypeError("it cannot be read")

    assert possible_hooks(Counter()) == ["request_finished", "seen"]
    assert not has_hooks("toy", Slotted())
