"""What is tested of every plugin that is a logger."""

import inspect

import pluggy

from hookline import hookspecs
from hookline_testing.hook_types import types_of


def assert_hooks_exist(*plugins: object) -> None:
    """Raises an error if plugins implement hooks, or name arguments, there are not.

    Args:
        plugins: A plugin's module, and what its hooks return.
    """
    manager = pluggy.PluginManager("hookline")
    manager.add_hookspecs(hookspecs)
    for plugin in plugins:
        manager.register(plugin)

    manager.check_pending()

    for plugin in manager.get_plugins():
        for caller in manager.get_hookcallers(plugin) or []:
            assert caller.spec is not None
            expected = types_of(caller.spec.function)
            for implementation in caller.get_hookimpls():
                found = inspect.get_annotations(implementation.function, eval_str=True)
                found.pop("return")
                assert found.items() <= expected.items()


class DeclaredOptions:
    """Notes a plugin's options with their defaults; implements `CliOptions`."""

    def __init__(self) -> None:
        """Has none."""
        self.defaults: dict[str, str | None] = {}

    def add(self, key: str, *, help: str, default: str | None = None) -> None:  # noqa: A002
        """Notes one option, which must be explained."""
        assert help
        self.defaults[key] = default
