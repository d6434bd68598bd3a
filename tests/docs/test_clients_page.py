"""docs/clients.md has the clients, versions and features that are tested."""

from pathlib import Path

from hookline_testing.client_suite import read_suite

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
SUITE = read_suite()


def test_the_table_is_the_suites() -> None:
    """
    The page has the table of the suite; a new table comes with the failure.
    """
    assert f"<!-- clients -->\n{SUITE.table()}\n<!-- end -->" in PAGE.read_text("utf-8")


def test_features_of_clients_are_described() -> None:
    """
    Each feature of a client has words for it, and each described one has a client.
    """
    tried = {feature for client in SUITE.clients for feature in client.features}

    assert tried == set(SUITE.features)


def test_each_client_has_a_section() -> None:
    """
    The page says of each package how it is pointed at a server.
    """
    text = PAGE.read_text("utf-8")

    missing = [
        each.package for each in SUITE.clients if f"`{each.package}`" not in text
    ]

    assert not missing
