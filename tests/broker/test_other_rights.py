"""Processes that the user who traces may not look into: once setuid, not dumpable, or not readable."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import thorough, users

PROGRAM = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads a file with the program's rights, drops them, tells its state, and works with the content after a line. */
int main(int count, char **words)
{
	char content[100] = {0};
	volatile long sum = 0;
	int file = open(words[1], O_RDONLY), calls = atoi(words[2]), child, got;

	if (file >= 0 && read(file, content, sizeof(content) - 1) < 0)
		return 1;
	if (setresgid(getgid(), getgid(), getgid()) || setresuid(getuid(), getuid(), getuid()))
		return 1;
	printf("[%d, %d, %d]\n", geteuid(), prctl(PR_GET_DUMPABLE), content[0] != 0);
	fflush(stdout);
	while ((got = getchar()) != '\n' && got != EOF)
		;
	for (int i = 0; i < calls; i++) {
		getppid();
		sum += atoi(content); /* a call whose result is not used is left out */
	}
	child = count > 3 ? fork() : -1;
	if (!child)
		execv(words[3], words + 3);
	if (child > 0)
		waitpid(child, NULL, 0);
	return 0;
}
"""
SECRET = "1234567 of root"


@pytest.fixture(scope="module")
def folder():
    """A folder that everybody may enter, with the program, setuid and plain and unreadable, and a file of root's."""
    made = Path(f"/var/tmp/accel_magic-rights-{os.getpid()}")
    made.mkdir(mode=0o755)
    (made / "secret").write_text(SECRET)
    (made / "secret").chmod(0o600)
    (made / "source.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-O0", "-o", made / "plain", made / "source.c"], check=True)
    for name, mode in (("setuid", 0o4755), ("unreadable", 0o711)):
        shutil.copy(made / "plain", made / name)
        (made / name).chmod(mode)
    (made / "plain").chmod(0o755)
    yield made
    shutil.rmtree(made)


def children(*programs):
    """Lines of a script that starts programs, and waits until each has told its state, to `states`."""
    return f"""
running = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for words in {[*programs]!r}]
states = [json.loads(one.stdout.readline()) for one in running]
def finish(one):
    one.stdin.write(b"\\n")
    one.stdin.close()
    one.wait()
"""


def test_a_setuid_program_that_has_dropped_its_rights_is_no_caller(broker, folder):
    """The process connects and then executes that program; its child, which has the socket, asks."""
    process = broker.start(
        f"""
import socket
from accel_magic import codec
from accel_magic.broker import broker_messages, broker_socket
from accel_magic.broker.broker_messages import AttachedTrace, AttachRequest, Hello, TraceRequest, Welcome
asked = broker_socket.connect(broker_socket.path())
codec.send(asked, Hello(version=broker_messages.VERSION))
codec.receive(asked, Welcome)
told, telling = os.pipe()
if os.fork():
    os.dup2(telling, 1)
    os.execv("{folder}/setuid", ["setuid", "{folder}/secret", "5"])
state = json.loads(os.read(told, 100))
codec.send(asked, AttachRequest(request=TraceRequest(("tracepoint:syscalls:sys_enter_getppid",))))
answer(state, codec.receive(asked, AttachedTrace, codec.Failure).code)
os._exit(0)
"""
    )
    state, code = json.loads(process.stdout.readline())
    process.communicate("\n", timeout=120)
    assert state == [users.FIRST, 0, 1]
    assert code == "broker.other-rights"


@pytest.mark.parametrize(
    ("program", "state"),
    [("setuid", [users.FIRST, 0, 1]), ("unreadable", [users.FIRST, 0, 0]), ("plain", [users.FIRST, 1, 0])],
)
def test_only_children_that_the_user_may_look_into_are_traced(broker, folder, program, state):
    """They have started, and dropped their rights, before the trace begins."""
    states, pid, hits, pids = broker.run(
        children([f"{folder}/{program}", f"{folder}/secret", "30"])
        + """
probes = "tracepoint:syscalls:sys_enter_getppid", "offcpu"
with accel_magic.trace(*probes, stacks="user") as t:
    for _ in range(7): os.getppid()
    finish(running[0])
answer(states, running[0].pid, t.result.counts.hits.tolist()[0], sorted(set(t.result.events.pid)))
"""
    )
    assert states == [state]
    assert hits == (37 if program == "plain" else 7)
    assert (pid in pids) == (program == "plain")


def test_a_process_is_in_scope_only_while_it_is_dumpable_and_was_never_setuid(broker, folder):
    """Each program executes a plain one in the end: that of a setuid program is not traced, that of another is."""
    plain = [f"{folder}/plain", f"{folder}/secret", "100"]
    (hits,) = broker.run(
        """
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", mode="count") as t:
"""
        + "".join(
            f"    {line}\n"
            for line in children(
                [f"{folder}/setuid", f"{folder}/secret", "10", *plain],
                [f"{folder}/unreadable", f"{folder}/secret", "1000", *plain],
            ).splitlines()
        )
        + """
    for one in running:
        one.stdin.write(b"\\n\\n")
        one.stdin.close()
        one.wait()
    child = os.fork()
    if not child:
        libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
        for _ in range(10_000): os.getppid()
        libc.prctl(4, 1, 0, 0, 0)
        for _ in range(100_000): os.getppid()
        os._exit(0)
    os.waitpid(child, 0)
answer(t.result.hits)
"""
    )
    assert hits == 100 + 100_000


RACE = """
import random, socket, struct
from accel_magic import codec
from accel_magic.broker import broker_client, broker_socket
from accel_magic.broker.broker_messages import AttachedTrace, AttachRequest
from accel_magic.probes.plan import TraceRequest
from accel_magic.kernel.mapped_memory import map_value

def once(delay_s):
    "A process asks for a trace of itself, and executes the setuid program meanwhile; its child reads the trace."
    process = os.fork()
    if process:
        os.waitpid(process, 0)
        return
    asked = broker_socket.connect(broker_socket.path())
    request = TraceRequest(("uprobe:libc:atoi",), mode="events", args="text=arg0:str", buffer_mib=1)
    with broker_client._opened(request) as (places, files):
        codec.send(asked, AttachRequest(request=request, places=places, files=files))
    (told, ending), (gate, opening) = os.pipe(), os.pipe()
    if os.fork():
        os.dup2(gate, 0)
        os.dup2(ending, 1)
        time.sleep(delay_s)
        os.execv(SETUID, ["setuid", SECRET, "2000"])
    os.close(ending)
    trace = codec.receive(asked, AttachedTrace, codec.Failure)
    if isinstance(trace, codec.Failure):
        answer(trace.code, 0, False)
        os._exit(0)
    import mmap
    control = mmap.mmap(trace.control.fd, 4096)
    control[0:8] = struct.pack("<II", 1, 1)
    os.close(opening)
    while os.read(told, 100): pass  # until the program has ended
    size = trace.ring_sizes[0]
    ring = mmap.mmap(trace.rings[0].fd, 4096 + 2 * size, mmap.MAP_SHARED, mmap.PROT_READ, offset=4096)
    answer("traced", struct.unpack_from("<Q", ring)[0], b"1234567" in ring[4096 : 4096 + size])
    os._exit(0)

source = random.Random(23)
for _ in range(TIMES):
    once(source.uniform(0, 0.6))
"""


@pytest.mark.parametrize("program", ["setuid", "plain"])
def test_nothing_of_a_setuid_program_is_seen_whenever_the_caller_executes_it(broker, folder, program):
    times = thorough.choose(6, 200) if program == "setuid" else 3
    secret = folder / ("secret" if program == "setuid" else "public")
    (folder / "public").write_text(SECRET)
    process = broker.start(f"TIMES, SETUID, SECRET = {times}, '{folder}/{program}', '{secret}'\n{RACE}")
    output, errors = process.communicate(timeout=100 + 10 * times)
    told = [json.loads(line) for line in output.splitlines()]
    assert len(told) == times, errors
    assert {code for code, _, _ in told} <= {"traced", "broker.other-rights"}
    assert {seen for code, _, seen in told if code == "traced"} <= {program == "plain"}


STARTS = """
import threading
nothing = os.open("/dev/null", os.O_RDWR)
def executed(words, traced=False):
    child = os.fork()
    if not child:
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        if traced: libc.ptrace(0, 0, 0, 0)  # PTRACE_TRACEME
        os.execv(words[0], words)
    return child
def by_vfork(words):
    actions = [(os.POSIX_SPAWN_DUP2, nothing, 0), (os.POSIX_SPAWN_DUP2, nothing, 1)]
    os.waitpid(os.posix_spawn(words[0], words, os.environ, file_actions=actions), 0)
def by_a_thread(words):
    thread = threading.Thread(target=lambda: os.waitpid(executed(words), 0))
    thread.start()
    thread.join()
def under_ptrace(words):
    child = executed(words, traced=True)
    status = os.waitpid(child, 0)[1]
    while os.WIFSTOPPED(status):
        libc.ptrace(7, child, None, 0)  # PTRACE_CONT
        status = os.waitpid(child, 0)[1]
"""


@pytest.mark.parametrize(
    ("start", "program", "hits"),
    [
        ("by_vfork", "plain", 30),
        ("by_vfork", "setuid", 0),
        ("by_a_thread", "plain", 30),
        ("by_a_thread", "setuid", 0),
        ("under_ptrace", "plain", 30),
        ("under_ptrace", "setuid", 30),  # the kernel gives it no rights then
    ],
)
def test_however_a_program_is_started_it_is_in_scope_exactly_if_it_has_no_other_rights(
    broker, folder, start, program, hits
):
    told = broker.run(
        f"""{STARTS}
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", mode="count") as t:
    {start}(["{folder}/{program}", "{folder}/secret", "30"])
answer(t.result.hits)
"""
    )
    assert told == [hits]
