"""Processes that the user who traces may not look into: once setuid, not dumpable, or not readable."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import users

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
	int file = open(words[1], O_RDONLY), calls = atoi(words[2]), got;

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
		atoi(content);
	}
	if (count > 3 && !fork())
		execv(words[3], words + 3);
	wait(NULL);
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
    subprocess.run(["gcc", "-O1", "-fno-builtin", "-o", made / "plain", made / "source.c"], check=True)
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
from accel_magic import channel
from accel_magic.broker import client, messages
asked = client.connect(client.path())
channel.send(asked, {{"kind": "hello", "version": messages.VERSION}})
messages.receive(asked, largest=1 << 20, timeout_s=60)
told, telling = os.pipe()
if os.fork():
    os.dup2(telling, 1)
    os.execv("{folder}/setuid", ["setuid", "{folder}/secret", "5"])
state = json.loads(os.read(told, 100))
request = messages.TraceRequest(("tracepoint:syscalls:sys_enter_getppid",), places={{}}).encoded()
channel.send(asked, {{"kind": "attach", "request": request, "tracers": ()}})
answer(state, messages.receive(asked, largest=1 << 20, timeout_s=60)[0]["error"]["code"])
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
