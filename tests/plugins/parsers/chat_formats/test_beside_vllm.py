"""vLLM's parsers read the tables' replies as ours do, but for known differences."""

import os

import pytest

from .beside_vllm import PYTHON, cases, differences, known


def test_each_difference_is_judged() -> None:
    """The table names replies that are still in the tables, and says who is right."""
    rows = {(row["format"], row["text"]) for row in known()}

    assert rows <= set(cases())
    assert all(
        row["right"].startswith(("Hookline: ", "vLLM: ", "both: ")) for row in known()
    )


@pytest.mark.slow
@pytest.mark.skipif(PYTHON not in os.environ, reason=f"{PYTHON} is not set")
def test_only_known_replies_are_read_otherwise() -> None:
    """Run where vLLM is installed, it finds no difference beside the table's."""
    found = [{**row} for row in differences()]

    assert found == [
        {key: value for key, value in row.items() if key != "right"} for row in known()
    ]
