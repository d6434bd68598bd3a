"""Which requests go through a proxy, by the standard variables."""

import pytest

from hookline_processes.addresses import AddressError
from hookline_processes.proxies import proxy_for

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("url", "environment", "expected"),
    [
        ("http://collector:4318/v1", {"HTTP_PROXY": PROXY}, PROXY),
        ("http://collector", {"http_proxy": PROXY, "HTTP_PROXY": "http://b:1"}, PROXY),
        ("https://collector", {"HTTP_PROXY": PROXY}, None),
        ("https://collector", {"https_proxy": "proxy:3128"}, PROXY),
        ("http://collector", {"ALL_PROXY": PROXY}, PROXY),
        ("http://collector", {"HTTP_PROXY": ""}, None),
        ("http://collector", {"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}, None),
    ],
)
def test_variables_name_the_proxy_of_a_scheme(
    url: str, environment: dict[str, str], expected: str | None
) -> None:
    """Lower case prevails; a CGI program's HTTP_PROXY is a header of its client."""
    assert proxy_for(url, environment) == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "[::1]", "localhost"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_this_machine_is_reached_directly(scheme: str, host: str) -> None:
    """Whatever the variables are: no proxy could reach it."""
    environment = {"HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, "NO_PROXY": ""}

    assert proxy_for(f"{scheme}://{host}:4318", environment) is None


@pytest.mark.parametrize(
    ("exceptions", "url", "is_direct"),
    [
        ("*", "http://a.example.org", True),
        ("example.org", "http://example.org", True),
        ("example.org", "http://a.b.example.org", True),
        ("example.org", "http://otherexample.org", False),
        (".example.org", "http://a.example.org", True),
        (".example.org", "http://example.org", True),
        ("*.example.org", "http://a.example.org", True),
        ("x, EXAMPLE.org", "http://A.Example.Org.", True),
        ("x example.org", "http://example.org", True),
        ("example.org:4318", "http://example.org:4318", True),
        ("example.org:4318", "http://example.org:4317", False),
        ("example.org:80", "http://example.org", True),
        ("10.0.0.0/8", "http://10.1.2.3:4318", True),
        ("10.0.0.0/8", "http://11.1.2.3:4318", False),
        ("10.1.2.3", "http://10.1.2.3", True),
        ("10.1.2.3:80", "http://10.1.2.3:81", False),
        ("fd00::/8", "http://[fd00::2]:4318", True),
        ("fd00::2", "http://[fd00::2]", True),
        ("[fd00::2]:80", "http://[fd00::2]", True),
        ("[fd00::2]", "http://[fd00::3]", False),
        ("", "http://a", False),
        (", ,", "http://a", False),
        (".", "http://a", False),
    ],
)
@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_exceptions_have_all_usual_forms(
    name: str, exceptions: str, url: str, is_direct: bool
) -> None:
    """Domains, addresses, networks, ports, and a star for everything."""
    found = proxy_for(url, {"HTTP_PROXY": PROXY, name: exceptions})

    assert (found is None) is is_direct


def test_a_wrong_proxy_is_an_error_without_its_password() -> None:
    """SOCKS is not spoken."""
    with pytest.raises(AddressError, match="one of socks5") as caught:
        proxy_for("http://a", {"ALL_PROXY": "socks5://me:secret@proxy:1080"})

    assert "secret" not in str(caught.value)
