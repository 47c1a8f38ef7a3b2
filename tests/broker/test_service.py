"""The broker as systemd runs it: with the user, capabilities and system calls of the unit, and a passed socket."""

import ctypes.util
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from accel_magic.broker import install
from tests.support import brokers, callers, users

SERVICE_USER = 61009
CONFINED = """
import ctypes, os, sys
at = sys.argv.index("--")
names, command = sys.argv[1:at], sys.argv[at + 1:]
seccomp, libc = ctypes.CDLL("libseccomp.so.2"), ctypes.CDLL(None)
seccomp.seccomp_init.restype = ctypes.c_void_p
rules = ctypes.c_void_p(seccomp.seccomp_init(0x00050001))  # EPERM
for name in names:
    number = seccomp.seccomp_syscall_resolve_name(name.encode())
    if number >= 0:
        assert not seccomp.seccomp_rule_add(rules, 0x7FFF0000, number, 0), name
libc.prctl(65, 1, 0, 0, 0)  # PR_SET_MDWE, as MemoryDenyWriteExecute
assert not seccomp.seccomp_load(rules)
os.execv(command[0], command)
"""
TRACED = """
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(1000))
probes = "latency:tracepoint:syscalls:sys_enter_getppid", "uprobe:libc:atoi", "uretprobe:libc:atoi"
with accel_magic.trace(*probes, args="text=arg0:str", stacks=True) as t:
    for _ in range(30): os.getppid()
    for _ in range(20): libc.atoi(b"12")
with accel_magic.flame(off_cpu=True, rate=499) as f:
    spin(0.4); time.sleep(0.3)
with accel_magic.trace("profile:hz:99", "offcpu", mode="count") as p:
    spin(0.2)
answer(t.result.counts.hits.tolist(), f.result.threads.cpu_ns.max().item() > 3e8, int(p.result.hits) > 0)
"""


def values(name, unit):
    """All values of a setting in a unit, in their order."""
    return [word for line in unit.splitlines() if line.startswith(f"{name}=") for word in line.split("=", 1)[1].split()]


def allowed(unit):
    """Names of the system calls that a unit's filter allows."""
    lines = [line.split("=", 1)[1] for line in unit.splitlines() if line.startswith("SystemCallFilter=")]
    found = set()
    for line in lines:
        names = {name for word in line.removeprefix("~").split() for name in expanded(word)}
        found = found - names if line.startswith("~") else found | names
    return sorted(found | set(expanded("@default")))


def expanded(word):
    if not word.startswith("@"):
        return [word]
    text = subprocess.run(
        ["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True
    ).stdout
    words = [line.strip() for line in text.splitlines()[1:]]
    return [name for one in words if one and not one.startswith("#") for name in expanded(one)]


class Service(brokers.Broker):
    """A broker that is started as systemd starts it, with the unit's limits that another program can set.

    Args:
        unit: The unit's text.

    """

    def __init__(self, unit):
        self.folder = folder = Path(tempfile.mkdtemp(prefix="accel_magic-broker-", dir="/tmp"))
        folder.chmod(0o755)
        self.socket, self.audit_file = folder / "broker.sock", folder / "audit"
        capabilities = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in values("AmbientCapabilities", unit))
        sets = [f"--{name}=-all,{capabilities}" for name in ("bounding-set", "inh-caps", "ambient-caps")]
        rights = [f"--reuid={SERVICE_USER}", f"--regid={SERVICE_USER}", "--clear-groups", "--no-new-privs", *sets]
        (command,) = [line.split("=:", 1)[1] for line in unit.splitlines() if line.startswith("ExecStart=")]
        confined = [sys.executable, "-c", CONFINED, *allowed(unit), "--", *command.split()]
        self.errors = (folder / "errors").open("w+")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.socket))
            self.socket.chmod(0o666)
            listening.listen()
            script = 'exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
            words = ["sh", "-c", script, "sh", "unshare", "--net", "setpriv", *rights, *confined]
            self.process = subprocess.Popen(words, stdin=listening, stderr=self.errors)


@pytest.fixture(scope="module")
def service():
    if not shutil.which("systemd-analyze") or not ctypes.util.find_library("seccomp"):
        pytest.skip("there is no systemd-analyze, or no libseccomp")
    (text,) = [file.content for file in install.installation([]).written if file.path.name == install.SERVICE_UNIT]
    running = Service(text)
    with running.connect() as connection:  # and wait until it serves
        callers.ask(connection, callers.HELLO)
    yield running
    running.stop()


def test_a_passed_socket_serves_and_what_the_unit_allows_is_enough_for_every_kind_of_probe(service):
    assert service.run(TRACED) == [[30, 20, 20], True, True]

    log = [line for line in (service.folder / "errors").read_text().splitlines() if not line.startswith('{"time"')]
    assert log == []


def test_the_service_has_the_units_rights_only(service):
    status = dict(line.split(":", 1) for line in Path(f"/proc/{service.process.pid}/status").read_text().splitlines())

    assert {*status["Uid"].split()} == {str(SERVICE_USER)}
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {1 << 2 | 1 << 38 | 1 << 39}
    assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")


def test_a_socket_that_is_not_a_listening_one_is_a_typed_error(tmp_path):
    file = tmp_path / "file"
    file.touch()
    script = f'exec 3<"{file}"; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
    words = ["sh", "-c", script, "sh", sys.executable, "-m", "accel_magic", "broker", "run"]

    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 1
    assert "broker.no-socket" in done.stderr


def test_users_of_the_service_are_told_apart(service):
    script = 'with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", mode="count") as t: os.getppid()\n'
    assert service.run(script + "answer(t.result.hits, os.getuid())", users.SECOND) == [1, users.SECOND]
