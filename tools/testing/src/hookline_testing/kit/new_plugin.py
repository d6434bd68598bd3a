"""`hookline plugins new`: writes the package of a plugin, with its test."""

from pathlib import Path

from hookline.plugins.kinds import KINDS
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.option import Option
from hookline_server.cli.options.parser import make_parser, parse
from hookline_server.cli.output import say
from hookline_testing.kit.project import NewPluginError, kind_of, write_package

KIND = Option(
    flag="kind",
    target="new.kind",
    group="the plugin",
    help="What it is.",
    choices=tuple(kind.name for kind in KINDS),
)
FOLDER = Option(
    flag="folder",
    target="new.folder",
    group="the plugin",
    help="Where the package's own folder is made.",
    default="the working directory",
)


def run(argv: list[str]) -> int:
    """Writes a package and says what to do next."""
    name, rest = (argv[0], argv[1:]) if argv and argv[0][:1] != "-" else ("", argv)
    parser = make_parser(
        "plugins new NAME", "Writes the package of a plugin.", [KIND, FOLDER]
    )
    given = parse(parser, rest)
    if not name:
        raise UsageError("plugins new: NAME is missing: plugins new NAME --kind KIND")
    if "new.kind" not in given:
        choices = ", ".join(KIND.choices)
        raise UsageError(f"plugins new: --kind is missing; available: {choices}")
    parent = Path(str(given.get("new.folder", ".")))
    try:
        folder = write_package(kind_of(str(given["new.kind"])), name, parent)
    except NewPluginError as error:
        raise UsageError(f"plugins new: {error}") from error
    say(
        f"{folder} is a package with a plugin and its test:\n"
        f"  pip install -e {folder}\n"
        f"  hookline plugins doctor\n"
        f"  python -m pytest {folder}"
    )
    return 0
