"""`dither keys` and `dither shuffle` as commands: what they print, and what they never do."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dither.cli import main
from dither.collect.sealing_keys import KeyFolder
from dither.collect.shuffler_store import ShufflerStore


def ran(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(main, list(words))
    return found.exit_code, found.output


def test_keys_are_made_listed_and_expired_and_never_shown(tmp_path: Path):
    store = str(tmp_path / "store")
    assert ran("keys", "list", "--store", store)[1].startswith("there are no keys yet")
    code, text = ran("keys", "new", "--store", store, "--json")
    assert code == 0
    (key,) = KeyFolder(tmp_path / "store" / "keys").stored()
    assert json.loads(text) == [{**key.published(), "opens": True}]
    assert "2 keys are active" in ran("keys", "new", "--store", store)[1]
    pending = json.loads(ran("keys", "new", "--store", store, "--pending", "--json")[1].partition("\n2 keys")[0])
    assert pending[0]["state"] == "pending"
    assert "active" in ran("keys", "activate", pending[0]["id"], "--store", store)[1]
    code, text = ran("keys", "expire", key.name[:8], "--store", store, "--grace", "0")
    assert code == 0
    assert "expired" in text
    shown = ran("keys", "list", "--store", store)[1] + ran("keys", "list", "--store", store, "--json")[1]
    for path in (tmp_path / "store" / "keys").iterdir():
        private = json.loads(path.read_text())["private"]
        assert private is None or private not in shown
        assert (path.stat().st_mode & 0o777) == 0o600


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("keys", "expire", "zz"), 1, "0 keys in"),
        (("keys", "expire"), 2, "Name a key"),
        (("keys", "new", "--store", "postgresql://here/there"), 1, "say with --keys"),
        (("shuffle",), 2, "Name the collector with --to"),
        (("shuffle", "--to", "collect.example.org"), 1, "the address of a collector"),
        (("shuffle", "--to", "http://collect.example.org"), 1, "plain HTTP"),
        (("shuffle", "--to", "https://collect.example.org", "--batch", "1"), 2, "--batch"),
        (("shuffle", "--status"), 1, "there is no store of a shuffler"),
    ],
)
def test_what_is_wrong_is_told(words, code, message, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    found, text = ran(*words)
    assert found == code
    assert message in text


def test_the_status_is_read_beside_a_shuffler(tmp_path: Path):
    facts = {"plan": "ab" * 32, "state": "open", "size": 100, "batch": None, "rounds": 1, "crowds": 1, "keys": []}
    with ShufflerStore(tmp_path) as store:
        assert ran("shuffle", "--status", "--store", str(tmp_path)) == (0, "no message has arrived yet\n")
        store.note_plan("ab" * 32, json.dumps(facts))
        assert "abababababab" in ran("shuffle", "--status", "--store", str(tmp_path))[1]
        told = json.loads(ran("shuffle", "--status", "--store", str(tmp_path), "--json")[1])
    assert told[0]["waiting"] == 0


def test_a_device_that_does_not_seal_does_not_load_hpke():
    code = "import sys, dither.collect.client; sys.exit('dither.collect.sealed_reports' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
