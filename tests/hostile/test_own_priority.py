"""A client with a key of its own neither jumps the queue nor holds KV blocks."""

from pathlib import Path

import pytest

from hookline_testing.server_process import serving

pytestmark = pytest.mark.hostile

KEY = {"Authorization": "Bearer key-of-acme"}
BODY = {"model": "demo", "prompt": "Hello", "max_tokens": 1}


@pytest.mark.parametrize(
    "field", [{"priority": -100}, {"kv_transfer_params": {"do_remote_decode": True}}]
)
def test_fields_at_others_expense_need_a_permission(
    tmp_path: Path, field: dict[str, object]
) -> None:
    """
    Keys of tenants are refused what they were not granted, and serve on otherwise.
    """
    keys = tmp_path / "keys.yaml"
    keys.write_text("key-of-acme: acme\n")
    argv = ("--executor=simulated", "--scheduling-policy=priority")
    with serving("--port=0", f"--tenant-keys={keys}", *argv) as server:
        status, answer = server.post("/v1/completions", {**BODY, **field}, KEY)
        plain, _ = server.post("/v1/completions", BODY, KEY)

    assert status == 403
    assert answer["error"]["code"] == "permission_denied"
    assert [answer["error"]["param"]] == list(field)
    assert plain == 200
