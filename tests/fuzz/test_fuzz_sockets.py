"""A short run of the fuzzer against sockets that are not HTTP."""

import pytest

from hookline_faults.fuzzing.socket_campaign import fuzz_sockets
from hookline_testing.essential import examples

pytestmark = pytest.mark.hostile


def test_rubbish_on_sockets_disturbs_nobody() -> None:
    """
    The engine's, a connector's and the KV events' sockets take rubbish without harm.
    """
    campaign = fuzz_sockets(examples(400), 19)

    assert campaign.num_cases >= examples(380)
    assert campaign.faults == []
