"""Measures acceptance by draft position on held-out text.

usage: python benchmarks/acceptance.py [--model demo] [--method medusa] [--drafts 1 2 4]
           [--prompts 64] [--tokens 128] [--batch 1] [--config JSON] [--tree] [--copy]

Prompts are the first 400 characters of functions and classes in those files of the
standard library that the demo model was not trained on. Decoding is greedy. Columns 1.,
2., … are the fraction of steps with drafts that accepted the draft at that position;
mean length is 1 + accepted ÷ steps with drafts. `--tree` adds a row for medusa with a
tree of 16 drafts and depth 4; its positions are depths. With `--copy` a prompt has 2400
characters and repeats its first 400 at the end, so that the output copies the rest.
"""

import argparse
import hashlib
import json
import re
import sysconfig
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from hookline import LLM, SamplingParams
from hookline_metrics import Family

SKIPPED = {"test", "tests", "idle_test", "site-packages", "__pycache__"}
HELD_OUT_PERCENT = 4
PROMPT_CHARACTERS = 400
COPIED_CHARACTERS = 2400
PREFIX = "hookline_spec_decode_"
TREE = [
    *([0], [1], [2], [3]),
    *([0, 0], [0, 1], [0, 2], [1, 0], [2, 0]),
    *([0, 0, 0], [0, 0, 1], [0, 1, 0]),
    *([0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]),
]
"""The 16 paths that were right most often on the demo model's training files."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Number of steps with drafts, and of accepted drafts by position."""

    drafts: int
    accepted: list[int]


def is_held_out(name: str) -> bool:
    """Returns the held-out files, split as in `models/demo/train.py`."""
    return hashlib.sha256(name.encode()).digest()[0] % 100 < HELD_OUT_PERCENT


def prompts(count: int, *, copies: bool) -> list[str]:
    """Returns this many prompts, spread evenly over all beginnings."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if SKIPPED & set(name.parts) or not is_held_out(name.as_posix()):
            continue
        text = path.read_text("utf-8", errors="ignore")
        parts = re.split(r"^(?=(?:def|class) )", text, flags=re.MULTILINE)[1:]
        if copies:
            long = [part[:COPIED_CHARACTERS] for part in parts]
            found += [
                f"{part}\n\n# The same again:\n{part[:PROMPT_CHARACTERS]}"
                for part in long
                if len(part) == COPIED_CHARACTERS
            ]
        else:
            found += [part[:PROMPT_CHARACTERS] for part in parts if len(part) > 1000]
    step = max(1, len(found) // count)
    return found[::step][:count]


def total(families: tuple[Family, ...], name: str) -> dict[str, float]:
    """Returns a counter's values by its label `position`, or by "" without one."""
    [family] = [each for each in families if each.name == f"{PREFIX}{name}"]
    found: defaultdict[str, float] = defaultdict(float)
    for sample in family.samples:
        labels = dict(zip(family.label_names, sample.labels, strict=True))
        assert isinstance(sample.value, float | int)
        found[labels.get("position", "")] += sample.value
    return dict(found)


def measure(
    options: argparse.Namespace, most_drafts: int, tree: list[list[int]] | None = None
) -> Counts:
    chosen = {
        "method": options.method,
        "num_speculative_tokens": most_drafts,
        "timeout_seconds": 5,
        **({} if tree is None else {"medusa_choices": tree}),
        **json.loads(options.config),
    }
    params = SamplingParams(temperature=0.0, max_tokens=options.tokens, ignore_eos=True)
    texts = prompts(options.prompts, copies=options.copy)
    with LLM(options.model, speculative_config=chosen) as llm:
        for first in range(0, len(texts), options.batch):
            llm.generate(texts[first : first + options.batch], params, use_tqdm=False)
        families = llm.get_metrics()
    accepted = total(families, "num_accepted_tokens_per_pos")
    return Counts(
        int(total(families, "num_drafts")[""]),
        [
            int(accepted.get(str(place), 0))
            for place in range(max(map(len, tree)) if tree else most_drafts)
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--method", default="medusa")
    parser.add_argument("--drafts", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--config", default="{}", help="other keys of the method")
    parser.add_argument("--tree", action="store_true", help="of 16 drafts, too")
    parser.add_argument("--copy", action="store_true", help="prompts to be copied")
    options = parser.parse_args()
    most = max(options.drafts)
    places = " | ".join(f"{place + 1}." for place in range(most))
    print(f"| method | k | steps with drafts | {places} | accepted | mean length |")
    print("|---" * (5 + most) + "|")
    rows: list[tuple[int, list[list[int]] | None]] = [
        (most_drafts, None) for most_drafts in options.drafts
    ]
    if options.tree:
        rows.append((len(TREE), TREE))
    for most_drafts, tree in rows:
        counts = measure(options, most_drafts, tree)
        shares = [each / max(1, counts.drafts) for each in counts.accepted]
        cells = [f"{share:.0%}" for share in shares] + [""] * (most - len(shares))
        rate = sum(shares) / most_drafts
        print(
            f"| {options.method}{', tree' if tree else ''} | {most_drafts} | "
            f"{counts.drafts} | {' | '.join(cells)} | {rate:.0%} | "
            f"{1 + sum(shares):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
