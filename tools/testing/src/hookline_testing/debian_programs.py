"""Programs that tests need; tools/fetch_program.sh and fetch_helm.sh get them."""

import os
import shutil
import sys
from pathlib import Path

import pytest

UNPACKED = Path(sys.prefix)
"""Where these put packages: the virtual environment."""

MUST_INSTALL = "HOOKLINE_MUST_INSTALL_CLIENTS"
"""Set where what tests install is a failure if it is missing, as in CI."""

_PLACES = {
    "chromium-headless-shell": ("chromium", "lib/chromium"),
    "helm": ("helm", "bin"),
    "prometheus": ("prometheus", "bin"),
    "promtool": ("prometheus", "bin"),
}
"""Each program's folder in the virtual environment, and its place below `usr` there."""


def find_program(name: str, unpacked: Path = UNPACKED) -> Path | None:
    """Finds a program in the virtual environment or on PATH."""
    package, place = _PLACES[name]
    there = unpacked / package / "usr" / place
    found = shutil.which(
        name, path=os.pathsep.join((str(there), os.environ.get("PATH", "")))
    )
    return None if found is None else Path(found)


def needed_program(name: str, unpacked: Path = UNPACKED) -> Path:
    """Returns a program; skips the test if it is missing and need not be here.

    It need not if the packages could not be reached, or if nobody demands it.
    """
    found = find_program(name, unpacked)
    if found is not None:
        return found
    reason = unpacked / f"{_PLACES[name][0]}.unreachable"
    if reason.exists():
        pytest.skip(f"no {name}: {reason.read_text().strip()}")
    said = f"there is no {name}; `make programs` gets it, or says why it cannot"
    if MUST_INSTALL in os.environ:
        pytest.fail(f"{said}, and {MUST_INSTALL} is set", pytrace=False)
    pytest.skip(said)
