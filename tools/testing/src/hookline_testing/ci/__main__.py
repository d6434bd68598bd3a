"""Runs the tests of `.ci/run`, and the type checker beside them.

More combinations of what essential tests cover are left to `make test-all`.
"""

import sys
import tempfile
from pathlib import Path

from hookline_testing.ci.landing import Part, land

PARTS = (Part(("make", "test-landing"), beside=("make", "types")),)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(land(PARTS, Path(folder)))
