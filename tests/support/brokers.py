"""A running broker with only the capabilities that it needs."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from accel_magic.errors import MachineError
from accel_magic.kernel import features
from tests.support import callers, fresh_python, users

CAPABILITIES = ("bpf", "perfmon", "dac_read_search")
HEAD = """
import ctypes, json, os, subprocess, sys, time
import accel_magic.subsystems
from accel_magic.errors import AccelMagicError
libc = ctypes.CDLL(None)

def answer(*values):
    print(json.dumps(values), flush=True)

def refused(*probes, **options):
    try:
        with accel_magic.trace(*probes, **options):
            pass
    except AccelMagicError as error:
        return error.code
    return ""
"""


def require():
    """Skip the test if no broker can run here, or there are no other users to serve."""
    try:
        features.require_tracing()
    except MachineError as error:
        if os.environ.get("ACCEL_MAGIC_REQUIRE_LIVE") == "1":
            pytest.fail(f"live tests are required here, and tracing is impossible: {error}")
        pytest.skip(f"tracing is impossible here: {error}")
    if os.geteuid() or not shutil.which("setpriv") or not shutil.which("unshare"):
        pytest.skip("only root can run a broker, and processes of other users")


class Broker:
    """A running broker.

    Args:
        policy: Its policy, as TOML.
        files: Files that take the place of existing ones for it, by path.
        rights: Further capabilities.

    """

    def __init__(self, policy="", files=None, rights=()):
        # Not in pytest's folder, which other users may not enter.
        self.folder = folder = Path(tempfile.mkdtemp(prefix="accel_magic-broker-", dir="/tmp"))
        folder.chmod(0o755)
        self.socket, self.audit_file = folder / "broker.sock", folder / "audit"
        (folder / "broker.toml").write_text(policy)
        words = [
            "broker",
            "run",
            "--socket",
            self.socket,
            "--policy",
            folder / "broker.toml",
            "--audit",
            self.audit_file,
        ]
        self.errors = (folder / "errors").open("w+")
        command = [sys.executable, "-m", "accel_magic", *words]
        if files:
            held = ",".join(["-all", *(f"+{name}" for name in CAPABILITIES)])
            before = ["setpriv", f"--bounding-set={held}", f"--inh-caps={held}"]
            self.process = subprocess.Popen(users.namespace(*before, *command, files=files), stderr=self.errors)
        else:
            self.process = fresh_python.Popen(command, capabilities=(*CAPABILITIES, *rights), stderr=self.errors)
        end = time.monotonic() + callers.DEADLINE_S
        while not self.socket.exists():
            assert self.process.poll() is None, (folder / "errors").read_text()
            assert time.monotonic() < end
            time.sleep(0.02)

    def start(self, script, uid=users.FIRST, *, forked=True, **options):
        """Start a script after `HEAD` as a user who has no right.

        Args:
            script: The script.
            uid: The user's id.
            forked: Whether it may be forked from another process, which does not see file systems mounted since.
            **options: As those of `subprocess.Popen`.

        """
        command, place = [sys.executable, "-c", HEAD + script], str(self.socket)
        own = {"ACCEL_MAGIC_BROKER": place, "HOME": f"/tmp/accel_magic-{uid}"}
        options |= dict.fromkeys(("stdout", "stderr", "stdin"), subprocess.PIPE)
        options |= {"env": os.environ | own, "cwd": "/", "text": True}
        if forked:
            return fresh_python.Popen(command, user=uid, **options)
        return subprocess.Popen(users.command(uid, *command), **options)

    def run(self, script, uid=users.FIRST, **options):
        """Run a script, and return its last answer."""
        process = self.start(script, uid, **options)
        output, errors = process.communicate(timeout=callers.DEADLINE_S)
        assert process.returncode == 0, errors
        return json.loads(output.splitlines()[-1])

    def audit(self):
        """The audit's lines."""
        return [json.loads(line) for line in self.audit_file.read_text().splitlines()]

    def sessions(self):
        """Process ids of its sessions."""
        found = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False)
        return [int(line) for line in found.stdout.split()]

    def connect(self):
        """A connection of this process, which is root's."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(30)
        connection.connect(str(self.socket))
        return connection

    def stop(self):
        """End it and all of its sessions."""
        for pid in [*self.sessions(), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):  # a session that just ended
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.errors.close()
        shutil.rmtree(self.folder)
