"""A server's numbers, through a real Prometheus, are what its client measured."""

from pathlib import Path

import pytest
from truth_table import measure

from hookline_testing.debian_programs import needed_program
from hookline_testing.essential import essential

SAMPLING_TOLERANCE = 0.15
"""Of gauges: the ends of a run of twelve seconds fall between two scrapes."""


LONG = ("time to first token p50", "time to first token p90")
"""Quantiles of waits of seconds, of which the way to the server and back is little."""


@pytest.mark.slow
@pytest.mark.parametrize("is_native", essential([False, True], True))
def test_panels_say_what_the_client_measured(
    tmp_path: Path, *, is_native: bool
) -> None:
    """
    Counts are equal. Means agree within 10 %: the client's contain the way to the
    server and back, which is short beside simulated steps of 20 ms and a long queue.
    So do quantiles of native histograms.
    """
    program = needed_program("prometheus")

    rows = measure(
        program,
        tmp_path,
        "--executor=simulated",
        "--simulated-step-seconds=0.02",
        requests=100,
        rate=40.0,
        seats=8,
        is_native=is_native,
    )

    counts = [row for row in rows if row.panel.is_count]
    means = [
        row
        for row in rows
        if row.panel.is_mean or (is_native and row.panel.name in LONG)
    ]
    gauges = {row.panel.name: row for row in rows if "{run}" in row.panel.expression}
    assert [row for row in counts if row.client != row.server] == []
    assert len(counts) == 4
    assert len(means) == (7 if is_native else 5)
    for row in means:
        assert row.server == pytest.approx(row.client, rel=0.1), row
    for row in gauges.values():
        assert row.server == pytest.approx(row.client, rel=SAMPLING_TOLERANCE), row
