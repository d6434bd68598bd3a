"""Makes the corpus anew: tells how decisions differ, and keeps new ones if asked.

`python -m hookline_testing.replay_corpus [NAME …] [--accept]`.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from hookline_recording import RecordingError, read_recording
from hookline_replay.decisions import decisions
from hookline_testing.replay_corpus.scenarios import SCENARIOS

CORPUS = Path(__file__).parents[5] / "tests/plugins/commands/replay/corpus"
MOST_LINES = 60


def main() -> int:
    """Compares; the exit status is 1 if a decision differs and is not accepted."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios")
    parser.add_argument(
        "--accept", action="store_true", help="keep the new recordings that differ"
    )
    given = parser.parse_args()
    differ = 0
    with TemporaryDirectory() as folder:
        for name in given.names or SCENARIOS:
            SCENARIOS[name](Path(folder) / f"{name}.rec")
        for made in sorted(Path(folder).glob("*.rec")):
            kept = CORPUS / made.name
            if not (diff := list(islice(changes(kept, made), MOST_LINES))):
                continue
            differ += 1
            sys.stdout.write("\n".join(diff) + "\n")
            if given.accept:
                CORPUS.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(made.read_bytes())
                sys.stdout.write(f"accepted: {kept.name}\n")
    return 1 if differ and not given.accept else 0


def changes(kept: Path, made: Path) -> Iterator[str]:
    """Yields the lines of a diff of the decisions of two recordings."""
    if not kept.exists():
        yield f"{kept.name} is new"
        return
    try:
        before = list(decisions(read_recording(kept).records))
    except RecordingError as error:
        before = [str(error)]
    after = list(decisions(read_recording(made).records))
    yield from unified_diff(before, after, kept.name, "now", lineterm="", n=2)


if __name__ == "__main__":
    sys.exit(main())
