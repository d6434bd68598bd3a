"""A short run of the fuzzer by the API's description; see `make fuzz-api`."""

import json

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from hookline_faults.fuzzing.bodies import ENDPOINTS, bodies
from hookline_faults.fuzzing.described_campaign import DESCRIBED, send_described
from hookline_faults.fuzzing.http_campaign import http_campaign
from hookline_faults.fuzzing.responses import Response, fault_of
from hookline_testing.described_api import DescribedApi
from hookline_testing.essential import examples

pytestmark = pytest.mark.hostile

DOCUMENT = {
    "paths": {
        "/a": {
            "post": {
                "responses": {
                    "200": {
                        "content": {
                            "application/json": {
                                "schema": {"$ref": "#/components/schemas/A"}
                            },
                            "text/event-stream": {
                                "schema": {"type": "string"},
                                "x-event-schema": {"$ref": "#/components/schemas/A"},
                            },
                        }
                    }
                }
            }
        }
    },
    "components": {"schemas": {"A": {"type": "object", "required": ["id"]}}},
}


def test_requests_by_the_description_disturb_nobody() -> None:
    """
    What schemathesis makes is answered as described; nothing fails, leaks or stalls.
    """
    with http_campaign("described", *DESCRIBED) as (campaign, storm, server):
        send_described(storm, server, examples(480), seed_of_all=23)

    assert campaign.num_cases > examples(450)
    assert len(storm.outcomes) > 15
    assert campaign.faults == []


@pytest.mark.parametrize(
    ("status", "media_type", "body", "fault"),
    [
        (200, "application/json", b'{"id": 1}', None),
        (200, "application/json", b"{}", "$: 'id' is a required property"),
        (200, "text/event-stream", b'data: {"id": 1}\n\ndata: [DONE]\n\n', None),
        (200, "text/event-stream", b"data: {}\n\n", "$: 'id' is a required property"),
        (200, "text/html", b"", "a 200 of the type 'text/html' is not described"),
        (404, "application/json", b"{}", "the status 404 is not described"),
    ],
)
def test_what_is_not_described_is_a_fault(
    status: int, media_type: str, body: bytes, fault: str | None
) -> None:
    """
    Statuses, media types, bodies and events are compared with the document.
    """
    api = DescribedApi(DOCUMENT)

    assert api.fault("POST", "/a", status, media_type, body) == fault


@pytest.mark.parametrize(
    ("status", "error", "is_fault"),
    [
        (400, {"type": "invalid_request_error", "message": "m"}, False),
        (400, {"message": "m", "code": "c"}, False),
        (400, {"code": "c"}, True),
        (500, {"type": "api_error", "message": "m"}, True),
    ],
)
def test_errors_of_both_apis_are_in_good_form(
    status: int, error: dict[str, str], is_fault: bool
) -> None:
    """
    Anthropic's errors have a type instead of a code.
    """
    response = Response(status, json.dumps({"error": error}).encode(), closes=False)

    found = fault_of(response, may_time_out=False, is_head=False)

    assert (found is not None) == is_fault


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_bodies_of_each_endpoint_are_mostly_right(endpoint: str) -> None:
    """
    The hand-made strategies make JSON objects that name the model.
    """
    named = []

    @seed(3)
    @settings(
        max_examples=40,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(bodies(endpoint))
    def make(body: bytes) -> None:
        named.append(b'"model":"demo"' in body.replace(b" ", b""))

    make()
    assert sum(named) > 20
