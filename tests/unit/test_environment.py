"""Tests do not depend on the environment in which they are started."""

import json
import os
import socket
import subprocess
import sys

import pytest

from accel_magic.broker import broker_socket
from tests.support import environment
from tests.support.paths import ROOT

pytestmark = pytest.mark.component

SHOW = """
import json, os
from tests import conftest
mask = os.umask(0)
print(json.dumps({"mask": mask, **os.environ}))
"""


def in_a_run(**given):
    """The environment and umask of a run of the tests that was started with these variables."""
    before = os.umask(0o077)
    try:
        command = [sys.executable, "-c", SHOW]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **given}, capture_output=True, check=True)
    finally:
        os.umask(before)
    return json.loads(done.stdout)


def test_variables_of_the_callers_shell_do_not_reach_the_tests():
    found = in_a_run(
        ACCEL_MAGIC_BROKER="/run/x", ACCEL_MAGIC_CLANG="clang-14", LANG="de_DE", LC_TIME="tr_TR.ISO-8859-9"
    )

    assert found["ACCEL_MAGIC_BROKER"] == ""
    assert found["LC_ALL"] == "C.UTF-8"
    assert found["mask"] == environment.UMASK
    assert found.keys() & {"ACCEL_MAGIC_CLANG", "LANG", "LC_TIME"} == set()


def test_temporary_files_are_where_sockets_and_preloaded_libraries_can_be(tmp_path):
    assert "TMPDIR" not in in_a_run(TMPDIR=str(tmp_path / "with space"))
    assert "TMPDIR" not in in_a_run(TMPDIR="/tmp/" + "long" * 10)
    assert in_a_run(TMPDIR="/var/tmp")["TMPDIR"] == "/var/tmp"


def test_variables_that_choose_what_is_tested_reach_the_tests():
    assert in_a_run(ACCEL_MAGIC_THOROUGH="1")["ACCEL_MAGIC_THOROUGH"] == "1"
    assert in_a_run(ACCEL_MAGIC_LAB="7.2", ACCEL_MAGIC_COMPILER="10.0.2.100:7007")["ACCEL_MAGIC_COMPILER"]


def test_dask_waits_for_busy_machines():
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")

    assert {dask.config.get(f"distributed.comm.timeouts.{kind}") for kind in ("connect", "tcp")} == {"240s"}


def test_no_test_uses_a_broker_of_this_machine(monkeypatch, tmp_path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "left"))
        monkeypatch.setattr(broker_socket, "SOCKET", tmp_path / "left")
        assert broker_socket.path() is None
        monkeypatch.delenv(broker_socket.VARIABLE)
        assert broker_socket.path() == tmp_path / "left"
