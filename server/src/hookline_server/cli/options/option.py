"""An option of the command line, as data."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

CONFIG_FILE = "run.config"
"""Target of the option that names the configuration file."""

FAIL_ON_ENVIRONMENT = "run.fail_on_environ_validation"
"""Target of the option that makes unknown variables an error."""


class Kind(Enum):
    """How an option takes its value.

    The values of `LIST`, `WORDS` and `MAP` add up when the option is repeated; a text
    holds one item, several items, or a mapping. `SWITCH` also has a `--no-` form.
    """

    VALUE = "value"
    LIST = "list"
    WORDS = "words"
    MAP = "map"
    SWITCH = "switch"
    FLAG = "flag"


REPEATABLE = (Kind.LIST, Kind.WORDS, Kind.MAP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of the command line, and one key of the configuration file.

    Attributes:
        flag: Its name, without leading dashes.
        target: Dotted path of the setting.
        group: Heading in the help.
        parse: Converts text to the value; raises `ValueError` if that is impossible.
        metavar: Placeholder for the value in the help.
        choices: The allowed words; empty allows any.
        default: The default as the help shows it, or None.
        constant: Value of a `FLAG` that is given.
        is_json: Whether the text is JSON.
    """

    flag: str
    target: str
    group: str
    help: str
    kind: Kind = Kind.VALUE
    parse: Callable[[str], object] = str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    default: str | None = None
    constant: object = True
    is_json: bool = False


JSON = Option(
    flag="json", target="run.json", group="output", kind=Kind.FLAG, help="Print JSON."
)
