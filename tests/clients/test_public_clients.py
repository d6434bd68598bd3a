"""Public clients, as installed, use a server: `make test-all`."""

from collections.abc import Callable

import pytest

from hookline_testing.client_programs import Outcome
from hookline_testing.client_suite import Client, read_suite

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CLIENTS = read_suite().clients
CASES = [(client, feature) for client in CLIENTS for feature in client.features]


OutcomesOf = Callable[[Client], dict[str, Outcome]]


@pytest.mark.parametrize(
    ("client", "feature"),
    CASES,
    ids=[f"{client.name}: {feature}" for client, feature in CASES],
)
def test_feature(client: Client, feature: str, outcomes_of: OutcomesOf) -> None:
    """
    The client, unchanged, does this with a server of Hookline.
    """
    outcome = outcomes_of(client)[feature]

    assert outcome.ok, outcome.detail


@pytest.mark.parametrize("client", CLIENTS, ids=[client.name for client in CLIENTS])
def test_listed_features_are_tried(client: Client, outcomes_of: OutcomesOf) -> None:
    """
    The program tries what the list says, in its order, and nothing else.
    """
    tried = tuple(outcomes_of(client))

    assert tried == client.features
