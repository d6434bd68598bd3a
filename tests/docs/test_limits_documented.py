"""docs/server.md has the table of a request's limits."""

from pathlib import Path

from hookline.request_limits import ALLOWED_TOKEN_IDS, LIMITS, Limit

PAGE = Path(__file__).parents[2] / "docs" / "server.md"


def table() -> str:
    """Returns the limits as Markdown."""
    lines = ["| limit | field | at most |", "|---|---|---|"]
    lines += [
        f"| `{limit.name}` | {_field(limit)} | {_most(limit)} |" for limit in LIMITS
    ]
    return "\n".join(lines)


def _field(limit: Limit) -> str:
    return "the body" if limit.param is None else f"`{limit.param}`"


def _most(limit: Limit) -> str:
    if limit is ALLOWED_TOKEN_IDS:
        return "the vocabulary"
    return f"{limit.most:,} {limit.what}"


def test_limits_are_documented() -> None:
    """
    The page has each limit with its number; a new table comes with the failure.
    """
    assert f"<!-- limits -->\n{table()}\n<!-- end -->" in PAGE.read_text()
