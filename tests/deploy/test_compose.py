"""The compose file fits the repository, the server's options and itself."""

import re
import shutil
import subprocess
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from hookline_testing.serve_options import options_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "compose"


def content(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))


COMPOSE = content("compose.yml")
SERVICES = COMPOSE["services"]
KEEPS_CLASSIC = "always_scrape_classic_histograms"


def mounts(service: str) -> dict[PurePosixPath, Path]:
    """The files of the repository that a service sees, by their paths in it."""
    volumes = [each.split(":") for each in SERVICES[service]["volumes"]]
    return {
        PurePosixPath(target): FOLDER / source
        for source, target, *_ in volumes
        if source not in COMPOSE["volumes"]
    }


@pytest.mark.parametrize("service", SERVICES)
def test_mounted_files_are_there(service: str) -> None:
    """
    Each file or folder that a service mounts is in the repository.
    """
    missing = [path for path in mounts(service).values() if not path.exists()]

    assert missing == []


def test_server_takes_the_options_of_the_command() -> None:
    """
    The command is valid, and reaches all addresses.
    """
    config, settings = options_of(SERVICES["server"]["command"])

    assert settings.host == ("0.0.0.0",)  # noqa: S104
    assert "prometheus" in config.observers.stat_loggers


def test_services_find_one_another() -> None:
    """
    Prometheus scrapes the server's port, and Grafana asks that Prometheus, as often.
    """
    config, (source,) = (
        content("prometheus.yml"),
        content("grafana/datasources.yml")["datasources"],
    )
    (job,) = config["scrape_configs"]
    port = options_of(SERVICES["server"]["command"])[1].port

    assert job["static_configs"] == [{"targets": [f"server:{port}"]}]
    assert SERVICES["server"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert source["url"] == "http://prometheus:9090"
    assert source["jsonData"]["timeInterval"] == config["global"]["scrape_interval"]


def test_every_port_is_this_machine_s_alone() -> None:
    """
    No service without a key is published to the network.
    """
    ports = [port for service in SERVICES.values() for port in service["ports"]]

    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_grafana_has_the_generated_dashboard() -> None:
    """
    The dashboard lies where Grafana is told to look, and is its home.
    """
    (provider,) = content("grafana/dashboards.yml")["providers"]
    home = PurePosixPath(
        SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    )

    assert home.parent == PurePosixPath(provider["options"]["path"])
    assert mounts("grafana")[home].samefile(ROOT / "deploy/grafana/hookline.json")


def test_grafana_has_the_dashboards_of_all_dialects() -> None:
    """
    Each generated dashboard is mounted beside the home dashboard.
    """
    mounted = {path.name for path in mounts("grafana") if path.suffix == ".json"}

    assert mounted == {path.name for path in (ROOT / "deploy/grafana").glob("*.json")}


def test_server_can_do_little_else() -> None:
    """
    Its file system is read-only but for caches and sockets, and it has no privileges.
    """
    server = SERVICES["server"]
    build = server["build"]
    recipe = (FOLDER / build["context"] / build["dockerfile"]).read_text("utf-8")

    assert server["read_only"] is True
    assert server["tmpfs"] == ["/tmp"]  # noqa: S108
    assert server["cap_drop"] == ["ALL"]
    assert server["security_opt"] == ["no-new-privileges:true"]
    assert f" AS {build['target']}\n" in recipe
    [cache] = re.findall(r'^VOLUME \["(.+)"\]$', recipe, re.MULTILINE)
    assert [each.split(":")[1] for each in server["volumes"]] == [cache]


def test_server_has_time_to_drain() -> None:
    """
    It is killed later than it ends by itself.
    """
    settings = options_of(SERVICES["server"]["command"])[1]
    grace = float(SERVICES["server"]["stop_grace_period"].removesuffix("s"))

    assert grace > settings.shutdown_timeout + 10


def test_prometheus_takes_native_histograms_and_keeps_classic_ones() -> None:
    """
    The image's version has the flag, and the name of the setting by which dashboards
    keep their buckets.
    """
    service = SERVICES["prometheus"]
    (job,) = content("prometheus.yml")["scrape_configs"]
    major, minor = re.findall(r"\d+", service["image"])[:2]

    assert (3, 0) <= (int(major), int(minor)) < (3, 9)
    assert "--enable-feature=native-histograms" in service["command"]
    assert job[KEEPS_CLASSIC] is True


def test_promtool_accepts_the_configuration(promtool: Path, tmp_path: Path) -> None:
    """
    With the files where the container has them, configuration and rules are valid. A
    promtool of version 2 does not know the setting for classic histograms.
    """
    for target, source in mounts("prometheus").items():
        shutil.copy(source, tmp_path / target.name)
    told = subprocess.run(
        [promtool, "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    if "version 2." in told.stdout:
        path = tmp_path / "prometheus.yml"
        lines = path.read_text("utf-8").splitlines(keepends=True)
        known = [line for line in lines if KEEPS_CLASSIC not in line]
        assert len(known) == len(lines) - 1
        path.write_text("".join(known), "utf-8")

    done = subprocess.run(
        [promtool, "check", "config", "prometheus.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stdout + done.stderr
