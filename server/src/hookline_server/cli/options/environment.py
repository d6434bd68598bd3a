"""Options from variables of the environment: `HOOKLINE_MAX_NUM_SEQS=8`."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from hookline_registry import PLUGINS_VARIABLE
from hookline_registry.spelling import did_you_mean
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.config_file import option_arguments
from hookline_server.cli.options.option import REPEATABLE, Kind, Option
from hookline_server.cli.options.renamed import own_name
from hookline_server.cli.secrets import MACHINES_VARIABLE, VARIABLES

PREFIX = "HOOKLINE_"

OTHERS = frozenset(
    {
        PLUGINS_VARIABLE,
        MACHINES_VARIABLE,
        *(name for names in VARIABLES.values() for name in names),
        "HOOKLINE_CPU_ISA",
        "HOOKLINE_EMULATE_AMX",
        "HOOKLINE_ENGINES_OWNER",
        "HOOKLINE_MODEL_ROOTS",
        "HOOKLINE_MUST_INSTALL_CLIENTS",
        "HOOKLINE_P2P_SECRET",
        "HOOKLINE_SECRETS_PIPE",
        "HOOKLINE_STAT_LOGGERS",
        "HOOKLINE_UPDATE_GOLDEN",
    }
)
"""Variables with a meaning of their own."""
_OF_TOOLS = ("HOOKLINE_BENCH_", "HOOKLINE_TEST_", "HOOKLINE_VLLM_")

# Kubernetes and Docker tell a container of a service named hookline or hookline-x so.
_LINK = re.compile(r"_SERVICE_(HOST|PORT)(_\w+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_\w+)?$")
_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://")

_WORDS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def variable_of(flag: str) -> str:
    """Returns the variable of an option."""
    return f"{PREFIX}{flag.replace('-', '_').upper()}"


def settings_of(
    options: Iterable[Option], environment: Mapping[str, str]
) -> dict[str, str]:
    """Returns the variables that set one of the options, with what they hold.

    Empty ones are left out, and so are those with a meaning of their own.
    """
    known = {each.flag for each in options}
    return {
        name: value
        for name, value in _own(environment)
        if own_name(_flag_of(name), value)[0] in known
    }


def arguments_of(name: str, value: str, options: Iterable[Option]) -> list[str]:
    """Returns a variable as arguments of the command line.

    Lists are JSON, or words separated by commas; mappings are JSON, or KEY=VALUE.

    Raises:
        UsageError: The value does not fit.
    """
    flag, given = own_name(_flag_of(name), value)
    (option,) = [each for each in options if each.flag == flag]
    if given != value:  # the name stands for a value, and the variable switches it on
        return [f"--{flag}={given}"] if _switched(name, value) else []
    if option.kind in (Kind.SWITCH, Kind.FLAG):
        return option_arguments(name, option, _switched(name, value))
    return option_arguments(name, option, _listed(option, value))


def has_unknown(options: Iterable[Option], environment: Mapping[str, str]) -> bool:
    """Whether a variable looks like an option, and is none of these."""
    return len(settings_of(options, environment)) < len(list(_own(environment)))


def unknown_variables(
    options: Iterable[Option], environment: Mapping[str, str], owners: Iterable[str]
) -> list[str]:
    """Returns a sentence for each variable that looks like an option and is none.

    Args:
        options: The options of all commands.
        environment: The variables.
        owners: Names of plugins: what begins with one of them is that plugin's.
    """
    known = {variable_of(each.flag) for each in options}
    prefixes = tuple(f"{variable_of(owner)}_" for owner in owners)
    found: list[str] = []
    for name, value in _own(environment):
        if variable_of(own_name(_flag_of(name), value)[0]) in known:
            continue
        hint = did_you_mean(name, known | OTHERS)
        if hint or not name.startswith(prefixes):
            found.append(f"{name} is no option of Hookline{hint}")
    return found


def _switched(name: str, value: str) -> bool:
    if (is_on := _WORDS.get(value.strip().lower())) is None:
        raise UsageError(f"{name}: {value!r} is neither true nor false")
    return is_on


def _listed(option: Option, value: str) -> object:
    if option.kind in REPEATABLE and value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value.split(",") if option.kind is Kind.LIST else value


def _own(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in environment.items():
        if not name.startswith(PREFIX) or not value or name in OTHERS:
            continue
        is_link = _LINK.search(name) or _LINK_VALUE.match(value)
        if not is_link and not name.startswith(_OF_TOOLS):
            yield name, value


def _flag_of(name: str) -> str:
    return name.removeprefix(PREFIX).lower().replace("_", "-")
