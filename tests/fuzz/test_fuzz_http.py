"""A short run of the fuzzer against a server; `make fuzz` runs a long one."""

import pytest

from hookline_faults.fuzzing.http_campaign import (
    SIMULATED,
    http_campaign,
    send_raw,
    send_requests,
)
from hookline_testing.essential import examples

pytestmark = pytest.mark.hostile

SEED = 19


def test_fuzzed_requests_disturb_nobody() -> None:
    """
    Some hundred cases later: no 5xx, no stall, nothing leaked, no traceback.
    """
    with http_campaign("short", *SIMULATED) as (campaign, storm, _):
        send_requests(storm, examples(600), SEED)
        send_raw(storm, examples(200), SEED)

    assert campaign.num_cases > examples(750)
    assert campaign.faults == []
