"""`python -m hookline_dashboards [--check]`: writes the generated files."""

import argparse
import sys
from pathlib import Path

from hookline_dashboards.files import generated_files


def main() -> int:
    """Writes the files, or lists stale ones with `--check`."""
    options = _options()
    stale = {
        path: text
        for name, text in generated_files().items()
        if _content(path := options.folder / name) != text
    }
    for path, text in stale.items():
        if options.check:
            sys.stdout.write(f"stale: {path}\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            sys.stdout.write(f"written: {path}\n")
    return int(options.check and bool(stale))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m hookline_dashboards",
        description="Generates the Grafana dashboard, the Prometheus rules and "
        "docs/dashboards.md.",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(),
        help="root of the repository (default: .)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 if a file is stale",
    )
    return parser.parse_args()


def _content(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
