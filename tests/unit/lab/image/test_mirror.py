from pathlib import Path

import pytest

from accel_magic.errors import MachineError
from accel_magic.lab.image import mirror
from tests.support.errors import raises

UNKNOWN = "$(ORIGIN)"
DEBIAN = [
    f"http://deb.example.net/debian/ bookworm main {UNKNOWN}",
    f"http://deb.example.net/debian/ bookworm-updates main {UNKNOWN}",
    f"http://sec.example.net/debian-security/ bookworm-security main {UNKNOWN}",
]


@pytest.fixture
def apt_says(tmp_path, monkeypatch):
    """Replace apt-get with one that prints these lines, and the keyring with an existing file."""
    keyring = tmp_path / "keys.gpg"
    keyring.touch()
    monkeypatch.setattr(mirror, "_KEYRINGS", (str(tmp_path / "none.gpg"), str(keyring)))

    def say(*lines, status=0):
        program = tmp_path / "apt-get"
        (tmp_path / "lines").write_text("".join(f"{line}\n" for line in lines))
        program.write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/lines\nexit {status}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        return mirror.find_mirror()

    return say


def addresses(found):
    return found.archive, found.security


def test_the_mirror_is_that_of_apts_sources(apt_says):
    assert addresses(apt_says(*DEBIAN)) == ("http://deb.example.net/debian", "http://sec.example.net/debian-security")


@pytest.mark.parametrize(
    "other",
    [
        f"https://packages.example.com/debian/12/prod/ bookworm main {UNKNOWN}",
        "https://packages.example.com/debian/ bookworm main Example Corp",
        f"https://download.example.com/linux/debian/ bookworm stable {UNKNOWN}",
        f"https://pool.example.com/debian/ bookworm-pgdg main {UNKNOWN}",
        f"cdrom://[Debian]/debian/ bookworm main {UNKNOWN}",
    ],
)
def test_a_third_party_repository_is_not_mistaken_for_debian(apt_says, other):
    assert apt_says(other, *DEBIAN).archive == "http://deb.example.net/debian"
    assert apt_says(*DEBIAN, other).archive == "http://deb.example.net/debian"


def test_an_origin_known_to_apt_takes_precedence(apt_says):
    found = apt_says(
        f"http://deb.debian.org/debian/ bookworm main {UNKNOWN}", "http://proxy.example.com/d/ bookworm main Debian"
    )
    assert found.archive == "http://proxy.example.com/d"


def test_a_mirror_list_is_passed_on_to_apt(apt_says):
    found = apt_says(
        f"mirror+file:/etc/apt/mirrors/debian.list bookworm main {UNKNOWN}",
        f"mirror+file:/etc/apt/mirrors/debian.list bookworm-updates main {UNKNOWN}",
    )
    assert found.archive == "mirror+file:/etc/apt/mirrors/debian.list"


def test_the_public_mirror_is_used_if_the_sources_have_no_debian(apt_says):
    found = apt_says("http://archive.ubuntu.com/ubuntu/ noble main Ubuntu")
    assert addresses(found) == ("http://deb.debian.org/debian", "http://deb.debian.org/debian-security")


def test_the_suites_are_those_of_the_pins_on_any_machine(apt_says):
    lines = apt_says(*DEBIAN).sources().splitlines()
    assert [line.split("] ")[1] for line in lines] == [
        "http://deb.example.net/debian trixie main",
        "http://sec.example.net/debian-security trixie-security main",
        "http://deb.example.net/debian trixie-backports main",
    ]
    assert all("signed-by=/" in line and "keys.gpg" in line for line in lines)


def test_the_error_without_debians_keys_names_the_package_to_install(apt_says, monkeypatch):
    monkeypatch.setattr(mirror, "_KEYRINGS", ("/nowhere/keys.gpg",))
    with raises("lab.no-keyring", MachineError) as error:
        apt_says(*DEBIAN)
    assert error.value.fix == "apt install debian-archive-keyring"


def test_unreadable_apt_sources_are_an_error(apt_says):
    with raises("lab.apt-sources", MachineError):
        apt_says(status=100)


@pytest.mark.skipif(not Path("/usr/bin/apt-get").exists(), reason="needs apt")
def test_this_machines_apt_accepts_the_query(monkeypatch, tmp_path):
    (tmp_path / "k").touch()
    monkeypatch.setattr(mirror, "_KEYRINGS", (str(tmp_path / "k"),))
    assert "/" in mirror.find_mirror().archive
