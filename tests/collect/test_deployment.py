"""The files of docs/deployment.md, taken from the page and used: the unit, the proxy, a backup that is restored."""

import http.client
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collect.collectors import TOO_LONG, batches, serving, small_plan, started
from dither.collect.sqlite_store import SqliteStore
from dither.wire import CONTENT_TYPE, BatchFormat

PAGE = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text(encoding="utf-8")
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
SYSTEMD = shutil.which("systemd-analyze")


def block(language: str) -> str:
    """The one block of the page in this language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


# The unit and the container ------------------------------------------------------------------------------------------


@pytest.mark.skipif(SYSTEMD is None, reason="the unit is not tested: there is no systemd-analyze")
def test_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "dither.service"
    unit.write_text(block("ini").replace("/opt/dither/bin/dither", "/bin/true"))
    done = subprocess.run(
        [str(SYSTEMD), "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=TOO_LONG, check=False
    )
    own = [line for line in done.stderr.splitlines() if unit.name in line]
    assert own == []
    unit.write_text(block("ini").replace("DynamicUser=yes", "DynamicUsr=yes"))
    done = subprocess.run(
        [str(SYSTEMD), "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=TOO_LONG, check=False
    )
    assert "DynamicUsr" in done.stderr  # it does look


def test_commands_of_the_page_have_options_that_there_are() -> None:
    from click.testing import CliRunner

    from dither.cli import main

    help_of = {
        name: CliRunner().invoke(main, [name, "--help"], terminal_width=200).output
        for name in ("serve", "campaign", "keys", "export", "shuffle")
    }
    typed = re.findall(r"dither (serve|campaign|keys|export|shuffle)\b([^`\n]*)", PAGE)
    assert len(typed) > 8
    for name, rest in typed:
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in help_of[name], (name, option)
    container = re.findall(r'"(--[a-z]+)"', block("dockerfile"))
    assert container
    assert all(option in help_of["serve"] for option in container)


def test_the_container_file_has_only_instructions() -> None:
    known = {"FROM", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    lines = block("dockerfile").replace("\\\n", " ").splitlines()
    assert lines[0].startswith("FROM ")
    assert {line.split()[0] for line in lines} <= known
    for line in lines:
        listed = re.search(r"\[.*\]", line)
        if listed is not None:
            compile(listed[0], "container", "eval")


# The proxy -----------------------------------------------------------------------------------------------------------


def certificate(folder: Path) -> None:
    """One for this machine, signed by itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "collect.example.org")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("collect.example.org")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "fullchain.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "privkey.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))


@contextmanager
def proxy(folder: Path, port: int, listen: int):
    """nginx with the page's settings, in a folder of its own."""
    certificate(folder)
    text = block("nginx")
    for page, here in (
        ("listen 443 ssl", f"listen 127.0.0.1:{listen} ssl"),
        ("127.0.0.1:8080", f"127.0.0.1:{port}"),
        ("/etc/ssl/dither", str(folder)),
        ("/var/log/nginx", str(folder)),
    ):
        assert page in text
        text = text.replace(page, here)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    user = "user root;\n" if os.geteuid() == 0 else ""
    settings = folder / "nginx.conf"
    settings.write_text(
        f"{user}daemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
        f"http {{\n{temporary}{text}\n}}\n"
    )
    command = [str(NGINX), "-p", str(folder), "-c", str(settings), "-e", str(folder / "start.log")]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, timeout=TOO_LONG, check=False)
    assert checked.returncode == 0, checked.stderr
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.terminate()
        process.wait(TOO_LONG)


@pytest.mark.wide
@pytest.mark.skipif(NGINX is None, reason="the proxy is not tested: there is no nginx")
def test_reports_through_the_proxy_and_no_address_in_its_log(tmp_path: Path) -> None:
    import socket

    plan, form = small_plan(), BatchFormat(small_plan())
    sent = batches(plan, 300, 100)
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = free.getsockname()[1]
    trusted = ssl.create_default_context()
    with serving(tmp_path / "store", plan) as served, proxy(tmp_path, served.port, listen):
        trusted.load_verify_locations(tmp_path / "fullchain.pem")

        def call(method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
            end = time.monotonic() + TOO_LONG
            while True:
                try:
                    raw = socket.create_connection(("127.0.0.1", listen), timeout=TOO_LONG)
                    break
                except OSError:
                    assert time.monotonic() < end
                    time.sleep(0.05)
            link = http.client.HTTPConnection("collect.example.org")
            link.sock = trusted.wrap_socket(raw, server_hostname="collect.example.org")
            lines = {name.replace("_", "-"): value for name, value in headers.items()}
            link.request(method, path, body, lines)
            answer = link.getresponse()
            found = answer.status, answer.read()
            link.close()
            return found

        assert call("GET", "/v1/health")[0] == 200
        assert call("GET", "/metrics")[0] == call("GET", "/openapi.json")[0] == 404
        where = f"/v1/plans/{plan.fingerprint}/reports"
        for place, body in enumerate([*sent, sent[0]]):
            key = f"key-{place % len(sent)}"
            status, answer = call("POST", where, body, idempotency_key=key, content_type=CONTENT_TYPE)
            assert status in (200, 201, 202), answer
        large = bytes(2 << 20)  # more than nginx keeps in memory by default; no batch
        assert call("POST", where, large, idempotency_key="large", content_type=CONTENT_TYPE)[0] in (400, 422)
        assert call("POST", where, bytes(17 << 20), idempotency_key="larger", content_type=CONTENT_TYPE)[0] == 413
        assert not any((tmp_path / "client_body").iterdir())
        served.stop()
    with SqliteStore(tmp_path / "store") as store:
        (campaign,) = store.campaigns()
        assert store.counted(campaign.number).tallies[0] == form.tally(map(form.check, sent))
    log = (tmp_path / "dither.log").read_text()
    assert log.count(" POST ") == len(sent) + 3
    assert "127.0.0.1" not in log
    assert plan.fingerprint not in log


# Backup and restore --------------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_a_backup_of_a_collector_that_runs_is_a_store(tmp_path: Path) -> None:
    plan, form = small_plan(), BatchFormat(small_plan())
    sent = batches(plan, 400, 100)
    served = started(tmp_path / "store", plan)
    for place, body in enumerate(sent[:2]):
        assert served.send(plan, body, f"key-{place}")[0] < 300
    copy = tmp_path / "copy" / "collector.db"
    copy.parent.mkdir()
    command = [
        sys.executable,
        "-m",
        "dither",
        "campaign",
        "backup",
        "--store",
        str(tmp_path / "store"),
        "-o",
        str(copy),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=TOO_LONG)
    assert served.send(plan, sent[2], "key-2")[0] < 300
    served.kill()
    for stream in (served.process.stdout, served.process.stderr):
        assert stream is not None
        stream.close()
    with serving(tmp_path / "copy") as restored:
        answers = [restored.send(plan, body, f"key-{place}") for place, body in enumerate(sent)]
        assert [answer["duplicate"] for _, answer in answers] == [True, True, False, False]
        restored.stop()
    with SqliteStore(tmp_path / "copy") as store:
        (campaign,) = store.campaigns()
        assert store.counted(campaign.number).tallies[0] == form.tally(map(form.check, sent))
        store.delete_campaign(campaign.number)
    assert plan.fingerprint.encode() not in copy.read_bytes()  # deleted in the copy, too
