"""What a user sends as the places of breakpoints: files of any kind, places anywhere in them."""

import ctypes
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from accel_magic.broker.broker_messages import FilePlaces, FilePoint
from accel_magic.probes.plan import TraceRequest
from tests.support import callers, users
from tests.support.kernel_objects import kernel_objects

VICTIM = """
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
volatile uint16_t secret = 5;
__attribute__((noinline)) int check(int x)
{
	__asm__ volatile("movl $0x11223344, %%eax" ::: "eax");
	return x + 1;
}
int main(void)
{
	unsigned char *code = (unsigned char *)check;

	printf("{\\"euid\\": %d, \\"secret\\": %d, \\"result\\": %d, \\"code\\": [", geteuid(), secret, check(41));
	for (int i = 0; i < 5; i++)
		printf("%s%d", i ? ", " : "", code[i]);
	printf("]}\\n");
	return 0;
}
"""
UNTOUCHED = {"euid": 0, "secret": 5, "result": 42, "code": [0xB8, 0x44, 0x33, 0x22, 0x11]}
ATTACHED = """
from accel_magic.broker import broker_client
from accel_magic.broker.broker_messages import AttachedTrace, AttachRequest, FilePlaces, FilePoint
from accel_magic.probes.plan import TraceRequest
from accel_magic.codec import Descriptor, descriptors_of
def attach(file, kind, offset, semaphore=0):
    point = FilePoint("path", "x", offset, 0, semaphore)
    spec = "usdt:path:a:x" if kind == "usdt" else "uprobe:path:x"
    request = TraceRequest((spec,), mode="count")
    broker_client.connection()
    try:
        asked = AttachRequest(request=request, places={0: FilePlaces((point,))}, files=(Descriptor(file),))
        answer = broker_client.connection().ask(asked, AttachedTrace)
    except AccelMagicError as error:
        return error.code
    return list(descriptors_of(answer))
"""


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    """A program that runs as root whoever starts it, and prints whether it was changed; file offsets of its symbols."""
    source = tmp_path_factory.mktemp("victim") / "victim.c"
    source.write_text(VICTIM)
    program = Path("/var/tmp") / f"accel_magic-victim-{os.getpid()}"
    subprocess.run(["gcc", "-O1", "-no-pie", "-fno-pie", "-fcf-protection=none", "-o", program, source], check=True)
    program.chmod(0o4755)
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    segments = [[int(word, 16) for word in row] for row in re.findall(r"LOAD +(\w+) (\w+) \w+ (\w+)", headers)]
    offsets = {}
    for address, name in re.findall(r"(\w+) \w (check|secret)$", symbols, re.MULTILINE):
        at = int(address, 16)
        offsets[name] = next(at - start + file for file, start, size in segments if start <= at < start + size)
    yield program, offsets
    program.unlink()


def executed(broker, program, attach):
    """What the program prints if a process executes it that has attached probes, and how attaching went."""
    script = f"""
file = os.open("{program}", os.O_RDONLY)
found = {attach}
if not isinstance(found, str):
    for one in (*found, broker_client.connection()._socket.fileno()): os.set_inheritable(one, True)
answer(found if isinstance(found, str) else "attached")
os.execv("{program}", ["victim"])
"""
    process = broker.start(ATTACHED + script)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    (how,), printed = map(json.loads, output.splitlines())
    return how, printed


def test_no_breakpoint_can_be_inside_an_instruction_of_a_setuid_program(broker, victim):
    program, offsets = victim
    how, printed = executed(broker, program, f"attach(file, 'uprobe', {offsets['check'] + 2})")
    assert (how, printed) == ("broker.bad-request", UNTOUCHED)


@pytest.mark.parametrize("offset", ["check", "secret"])
def test_no_semaphore_can_change_the_data_of_a_setuid_program(broker, victim, offset):
    program, offsets = victim
    how, printed = executed(broker, program, f"attach(file, 'usdt', {offsets[offset]}, {offsets['secret']})")
    assert (how, printed) == ("broker.bad-request", UNTOUCHED)


def test_a_breakpoint_on_a_function_of_a_setuid_program_changes_nothing_that_it_does(broker, victim):
    program, offsets = victim
    how, printed = executed(broker, program, f"attach(file, 'uprobe', {offsets['check']})")
    assert how == "attached"
    assert printed["code"][1:] == UNTOUCHED["code"][1:]
    assert {**printed, "code": UNTOUCHED["code"]} == UNTOUCHED


PLACES = {0: FilePlaces((FilePoint("path", "x", offset=1, file=0),))}
REQUEST = {
    "type": "attach",
    "request": msgspec.to_builtins(TraceRequest(("uprobe:path:x",), mode="count")),
    "places": msgspec.to_builtins(PLACES),
    "files": [0],
}
"""A request whose place is in the file that comes with it."""


def test_files_that_are_no_programs_or_that_the_caller_cannot_read_are_refused(broker, tmp_path):
    secret = tmp_path / "secret"
    shutil.copy(os.path.realpath(shutil.which("sleep")), secret)
    secret.chmod(0o600)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "text").write_text("x" * 5000)
    (tmp_path / "empty").touch()
    (tmp_path / "half").write_bytes(secret.read_bytes()[:5000])
    hole = tmp_path / "hole"
    with hole.open("wb") as file:
        file.write(secret.read_bytes()[:64])
        file.truncate(1 << 40)
    memory = os.memfd_create("text")
    os.write(memory, b"\x7fELF" + b"\xff" * 4000)
    opened = [
        os.open(secret, os.O_PATH),
        os.open(secret, os.O_WRONLY),
        os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK),
        os.open(tmp_path, os.O_RDONLY),
        os.open("/dev/zero", os.O_RDONLY),
        os.open("/proc/self/mem", os.O_RDONLY),
        os.open("/proc/self/maps", os.O_RDONLY),
        os.open("/sys/kernel/notes", os.O_RDONLY),
        *(os.open(tmp_path / name, os.O_RDONLY) for name in ("text", "empty", "half", "hole")),
    ]
    nowhere = [os.eventfd(0), os.pidfd_open(os.getpid()), memory]
    before = kernel_objects()
    with callers.connected(broker) as connection:
        codes = [callers.ask(connection, REQUEST, [file])["code"] for file in opened]
        assert codes == ["broker.bad-request"] * len(opened)
        assert callers.ask(connection, REQUEST)["code"] == "broker.bad-request"
    for file in nowhere:
        with callers.connected(broker) as connection:
            assert callers.ask(connection, REQUEST, [file])["code"] == "broker.file-system"
            assert callers.ask(connection, REQUEST) is None
    for file in (*opened, *nowhere):
        os.close(file)
    callers.until(lambda: not kernel_objects() - before)


CHANGED = """
import shutil
shutil.copy(libc_path, path)
at = next(point.offset for point in functions(Path(libc_path)).match("atoi"))
file = os.open(path, os.O_RDONLY)
first = attach(file, "uprobe", at)
{change}
second = attach(file, "uprobe", at)
answer(isinstance(first, list), second if isinstance(second, str) else "attached")
"""
LIBC = """
from pathlib import Path
from accel_magic.probes.file_functions import functions
libc_path = next(line.split()[-1] for line in open("/proc/self/maps") if "libc.so" in line)
path = f"/tmp/accel_magic-changed-{os.getpid()}"
"""
CHANGES = {
    "os.truncate(path, 100)": "broker.bad-request",
    "os.truncate(path, 0)": "broker.bad-request",
    'open(path, "r+b").write(b"x" * 5000)': "broker.bad-request",
    "os.unlink(path)": "attached",
    'os.replace(shutil.copy("/etc/passwd", path + "2"), path)': "attached",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_between_requests_is_checked_again_and_its_path_does_not_matter(broker, change):
    found = broker.run(ATTACHED + LIBC + CHANGED.format(change=change))
    assert found == [True, CHANGES[change]]
    for left in Path("/tmp").glob("accel_magic-changed-*"):
        left.unlink()


def test_a_file_that_changes_all_the_time_harms_nobody(broker):
    codes = broker.run(
        ATTACHED
        + LIBC
        + """
import shutil, threading
whole = open(libc_path, "rb").read()
shutil.copy(libc_path, path)
at = next(point.offset for point in functions(Path(libc_path)).match("atoi"))
going = True
def change():
    while going:
        os.truncate(path, 1000)
        with open(path, "r+b") as file: file.write(whole)
changing = threading.Thread(target=change)
changing.start()
file, found = os.open(path, os.O_RDONLY), []
for _ in range(10):
    answered = attach(file, "uprobe", at)
    found.append(answered if isinstance(answered, str) else "attached")
    if found[-1] == "attached":
        for one in answered: os.close(one)
        broker_client.connection().close()
going = False
changing.join()
os.unlink(path)
answer(sorted(set(found)))
"""
    )
    assert set(codes[0]) <= {"attached", "broker.bad-request", "probe.nothing-attached", "machine.attach-refused"}


def tree(root):
    """Process ids of a process and its descendants."""
    found = subprocess.run(["pgrep", "-P", str(root)], capture_output=True, text=True, check=False).stdout.split()
    return [root, *(each for child in map(int, found) for each in tree(child))]


def mapped_at(pid, file):
    """The address at which a process has the start of a file; None if it has not."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split()
        if words[-1] == file and words[1].endswith("p") and words[2].strip("0") == "":
            return int(words[0].partition("-")[0], 16)
    return None


def test_breakpoints_in_a_library_that_the_broker_uses_too_are_not_set_there(broker):
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line)
    place = ctypes.cast(ctypes.CDLL("libc.so.6").malloc, ctypes.c_void_p).value - mapped_at(os.getpid(), libc)
    process = broker.start(
        """
with accel_magic.trace("uprobe:libc:malloc", mode="count", uprobes="kernel") as t:
    own = ctypes.CDLL("libc.so.6")  # of the whole process, a Python that is no library may have a place of its own
    answer(ctypes.string_at(ctypes.cast(own.malloc, ctypes.c_void_p).value, 1)[0])
    sys.stdin.readline()
"""
    )
    assert json.loads(process.stdout.readline()) == [0xCC]
    looked = 0
    for pid in tree(broker.process.pid):
        start = mapped_at(pid, libc)
        if start is not None:
            with Path(f"/proc/{pid}/mem").open("rb") as memory:
                memory.seek(start + place)
                assert memory.read(1) != b"\xcc"
            looked += 1
    process.communicate("\n", timeout=60)
    assert looked >= 2


def test_a_program_that_the_user_cannot_read_is_a_typed_error(broker, victim):
    program, _ = victim
    program.chmod(0o4711)
    try:
        assert broker.run(f'answer(refused("uprobe:{program}:check"))') == ["probe.unreadable-file"]
        assert broker.run('answer(refused("uprobe:/bin/su:main", "uprobe:libc:atoi"))')[0].startswith("probe.")
    finally:
        program.chmod(0o4755)


INSIDE = """
import ctypes, json, sys
import accel_magic
from accel_magic.errors import AccelMagicError
called = ctypes.CDLL(sys.argv[1]).atoi
try:
    with accel_magic.trace(f"uprobe:{sys.argv[1]}:atoi", mode="count", uprobes="kernel") as t:
        for _ in range(30): called(b"1")
    print(json.dumps(int(t.result.hits)))
except AccelMagicError as error:
    print(json.dumps(error.code))
"""
MOUNTED = """
import shutil
folder = f"/tmp/accel_magic-mounts-{os.getpid()}"
for one in ("a", "b", "c"): os.makedirs(f"{folder}/{one}")
for one in ("a", "b"): shutil.copy(libc_path, f"{folder}/{one}/library.so")
steps = f"cd {folder}; {mount}; exec setpriv --bounding-set=-all --inh-caps=-all -- " + '"$@"'
words = [sys.executable, "-c", inside, f"{folder}/a/library.so"]
done = subprocess.run(["unshare", "-Urm", "sh", "-ec", steps, "sh", *words], capture_output=True, text=True)
shutil.rmtree(folder)
answer(done.stdout.strip() or done.stderr)
"""
MOUNTS = {
    "mount --bind b/library.so a/library.so": "30",
    "mount -t tmpfs tmpfs a; cp b/library.so a": "30",
    "mount -t overlay overlay -o lowerdir=b:c a": '"broker.file-system"',
}


@pytest.mark.parametrize("mount", MOUNTS)
def test_a_caller_in_its_own_namespace_traces_what_is_mounted_there_unless_that_could_hide_another(broker, mount):
    made = subprocess.run(users.command(users.FIRST, "unshare", "-Urm", "true"), capture_output=True, check=False)
    if made.returncode:
        pytest.skip("this machine does not let users create user namespaces")
    assert broker.run(LIBC + f"inside, mount = {INSIDE!r}, {mount!r}\n" + MOUNTED) == [MOUNTS[mount]]
