"""The options that allow and deny plugins, read before any plugin is looked for."""

import os
from collections.abc import Sequence

from hookline_registry import PLUGINS_VARIABLE
from hookline_server.cli.errors import UsageError

ALLOW, DENY = "--plugins-allow", "--plugins-deny"
HELP = (
    f"{ALLOW} NAMES and {DENY} NAMES, with any command, restrict the plugins\nthat "
    f"may be used to these names of plugins or distributions, or deny them.\n"
    f"{PLUGINS_VARIABLE} does the same: `a,b` allows, `no:c` denies."
)


def without_plugin_options(argv: Sequence[str]) -> list[str]:
    """Takes both options out of a command line, and applies them.

    They go to the environment, so that the processes of this command obey them, too.

    Raises:
        UsageError: An option has no value.
    """
    rest, words, arguments = list[str](), list[str](), iter(argv)
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if option not in (ALLOW, DENY):
            rest.append(argument)
            continue
        if not equals:
            value = next(arguments, "")
        names = [name for name in value.split(",") if name]
        if not names:
            raise UsageError(f"{option} needs names of plugins, separated by commas")
        words += names if option == ALLOW else [f"no:{name}" for name in names]
    if words:
        given = os.environ.get(PLUGINS_VARIABLE)
        os.environ[PLUGINS_VARIABLE] = ",".join([*([given] if given else []), *words])
    return rest
