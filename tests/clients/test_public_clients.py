"""Public clients, as installed, use a server; frameworks do in `make test-all`."""

from collections.abc import Callable, Sequence

import pytest

from hookline_testing.client_programs import Outcome
from hookline_testing.client_suite import Client, read_suite
from hookline_testing.essential import essential

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CLIENTS = read_suite().clients
OFFICIAL = [
    client for client in CLIENTS if client.name.startswith(("openai (", "anthropic ("))
]


def cases(clients: Sequence[Client]) -> list[tuple[Client, str]]:
    """Each client with each of its features."""
    return [(client, feature) for client in clients for feature in client.features]


OutcomesOf = Callable[[Client], dict[str, Outcome]]


@pytest.mark.parametrize(
    ("client", "feature"),
    essential(cases(CLIENTS), *cases(OFFICIAL)),
    ids=[f"{client.name}: {feature}" for client, feature in cases(CLIENTS)],
)
def test_feature(client: Client, feature: str, outcomes_of: OutcomesOf) -> None:
    """
    The client, unchanged, does this with a server of Hookline.
    """
    outcome = outcomes_of(client)[feature]

    assert outcome.ok, outcome.detail


@pytest.mark.parametrize(
    "client",
    essential(CLIENTS, *OFFICIAL),
    ids=[client.name for client in CLIENTS],
)
def test_listed_features_are_tried(client: Client, outcomes_of: OutcomesOf) -> None:
    """
    The program tries what the list says, in its order, and nothing else.
    """
    tried = tuple(outcomes_of(client))

    assert tried == client.features
