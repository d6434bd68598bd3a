"""The command that builds, checks and numbers the distributions of a checkout."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from hookline_testing.distributions import read_distributions
from hookline_testing.release.archives import problems_of
from hookline_testing.release.building import build
from hookline_testing.release.licences import installed_with, refusal
from hookline_testing.release.requirements import needed
from hookline_testing.release.versions import set_version

ROOT = Path(__file__).parents[5]


def main() -> int:
    options = _parser().parse_args()
    status: int = options.run(options)
    return status


def _build(options: argparse.Namespace) -> int:
    built = build(
        read_distributions(ROOT), options.out, options.repository.removesuffix(".git")
    )
    size = sum(path.stat().st_size for path in built if path.suffix == ".whl")
    print(f"{len(built)} archives in {options.out}; the wheels have {size:,} bytes")  # noqa: T201
    return _report(
        f"{path.name}: {each}" for path in built for each in problems_of(path)
    )


def _check(options: argparse.Namespace) -> int:
    return _report(
        f"{path.name}: {each}" for path in options.archive for each in problems_of(path)
    )


def _requirements(options: argparse.Namespace) -> int:
    found = needed(read_distributions(ROOT), options.name)
    print(*(found.ours if options.ours else found.others), sep="\n")  # noqa: T201
    return 0


def _licences(options: argparse.Namespace) -> int:
    """Lists what distributions bring, and refuses what is not permissive."""
    found = installed_with(options.name)
    for name, licence in found.items():
        print(f"{name:44} {licence}")  # noqa: T201
    return _report(filter(None, (refusal(*each) for each in found.items())))


def _version(options: argparse.Namespace) -> int:
    for path in set_version(ROOT, options.version):
        print(path.relative_to(ROOT))  # noqa: T201
    return 0


def _report(problems: Iterable[str]) -> int:
    lines = list(problems)
    for line in lines:
        print(line, file=sys.stderr)  # noqa: T201
    return int(bool(lines))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m hookline_testing.release")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("build", help="build and check sdists and wheels")
    command.add_argument("--out", type=Path, default=Path("dist"), help="a folder")
    command.add_argument("--repository", default="", help="its URL, for the metadata")
    command.set_defaults(run=_build)
    command = commands.add_parser("check", help="check sdists and wheels")
    command.add_argument("archive", type=Path, nargs="+")
    command.set_defaults(run=_check)
    command = commands.add_parser("licences", help="list licences of what is installed")
    command.add_argument("name", nargs="*", default=["hookline"], help="a distribution")
    command.set_defaults(run=_licences)
    command = commands.add_parser("requirements", help="list what of others is needed")
    command.add_argument("name", nargs="+", help="a distribution")
    command.add_argument("--ours", action="store_true", help="list ours instead")
    command.set_defaults(run=_requirements)
    command = commands.add_parser("version", help="give all distributions a version")
    command.add_argument("version", help="such as 0.2.0")
    command.set_defaults(run=_version)
    return parser


if __name__ == "__main__":
    sys.exit(main())
