"""Ids of requests, which name their clients."""

import pytest

from hookline.exceptions import ConfigError
from hookline.request_ids import MAX_CLIENTS, client_of, first_id


def test_request_ids_name_their_client() -> None:
    """Ids of several clients never meet, and each leads back to its client."""
    clients = (0, 1, MAX_CLIENTS - 1)
    made = [(each, first_id(each) + later) for each in clients for later in range(3)]

    assert [client_of(request_id) for _, request_id in made] == [
        client for client, _ in made
    ]
    assert len({request_id for _, request_id in made}) == len(made)
    assert made[0] == (0, 1)
    assert max(request_id for _, request_id in made) < 2**63
    with pytest.raises(ConfigError, match="client-index"):
        first_id(MAX_CLIENTS)
