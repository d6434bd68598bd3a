"""Runs the tests of `.ci/run`, and the type checker beside those that mostly wait.

More combinations of what essential tests cover are left to `make test-all`.
"""

import sys
import tempfile
from pathlib import Path

from hookline_testing.ci.landing import Part, land

REST = "(slow or hostile) and not exhaustive"
PARTS = (
    Part(("make", "test")),
    Part(("make", "test-rest", f"REST={REST}"), beside=("make", "types")),
)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(land(PARTS, Path(folder)))
