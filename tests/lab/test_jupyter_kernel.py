"""The Jupyter kernel "Python 3 (NPU lab)": started, interrupted, restarted and ended as by a front end."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from jupyter_client import KernelManager
from jupyter_client.ioloop import AsyncIOLoopKernelManager
from nbclient import NotebookClient

from accel_magic.errors import MachineError
from accel_magic.lab.image import snapshots
from tests.support.errors import raises

pytestmark = pytest.mark.lab

NAME = "accel-magic-npu-lab"
ANSWER_S = 240
BOOT_ID = "open('/proc/sys/kernel/random/boot_id').read()"
PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


@pytest.fixture(scope="module", autouse=True)
def built(image_of):
    image_of("7.2")


class Notebook:
    """A started kernel, used through a front end's messages."""

    def __init__(self, folder, **config):
        self.manager = KernelManager(kernel_name=NAME)
        self.manager.kernel_spec.metadata["kernel_provisioner"]["config"].update(config)
        self.manager.start_kernel(cwd=str(folder))
        self.connect()

    def connect(self):
        """Open channels to the kernel."""
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=ANSWER_S)

    @property
    def lab(self):
        return self.manager.provisioner._guest.lab

    def run(self, code):
        """Run a cell that must succeed; returns its output."""
        printed = []

        def take(message):
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])

        reply = self.client.execute_interactive(code, timeout=ANSWER_S, output_hook=take)["content"]
        assert reply["status"] == "ok", "\n".join(reply["traceback"])
        return "".join(printed)

    def value(self, expression):
        return ast.literal_eval(self.run(f"print(repr({expression}))"))

    def interrupted(self, body):
        """Run a cell, interrupt it once it has started, and return how it ended."""
        message = self.client.execute(f"import subprocess, time\nprint('begun')\n{body}")
        while True:
            output = self.client.get_iopub_msg(timeout=ANSWER_S)
            if output["parent_header"].get("msg_id") == message and output["msg_type"] == "stream":
                break
        self.manager.interrupt_kernel()
        while (reply := self.client.get_shell_msg(timeout=ANSWER_S))["parent_header"]["msg_id"] != message:
            pass
        return reply["content"].get("ename")

    def close(self, **options):
        self.client.stop_channels()
        self.manager.shutdown_kernel(**options)


@pytest.fixture(scope="module", params=[pytest.param("booted", marks=pytest.mark.thorough), "restored"])
def notebook(request, built, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "restored":
            request.getfixturevalue("snapshot")
            patch.setenv(snapshots.VARIABLE, "use")
        notebook = Notebook(tmp_path_factory.mktemp("notebooks"))
        assert notebook.lab.restored == (request.param == "restored")
        yield notebook
        notebook.close(now=True)


def family(lab):
    """Process ids of a lab's keeper, QEMU and device."""
    keeper = lab._guest.keeper.pid
    return [keeper, *map(int, Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split())]


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids, folder, within_s=60):
    """Whether the processes and the folder of a lab disappear within some seconds."""
    end = time.monotonic() + within_s
    while any(map(is_alive, pids)) or folder.exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def labs():
    """Ids of all processes on this machine that use a lab's socket."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"accel_magic-lab-" in file.read_bytes():
                found.add(int(file.parent.name))
        except OSError:
            continue
    return found


def test_cells_run_in_the_guest_with_the_same_python_the_notebooks_files_and_the_npu(notebook, tmp_path_factory):
    assert re.match(r"7\.2\.\d+", notebook.value("__import__('os').uname().release"))
    assert notebook.value("__import__('sys').executable") == sys.executable
    assert notebook.value("__import__('sys').version") == sys.version
    assert (
        notebook.value("open(__import__('accel_magic').__file__).read()")
        == Path(sys.modules["accel_magic"].__file__).read_text()
    )
    assert notebook.value("__import__('os').path.exists('/dev/accel/accel0')")


def test_files_written_beside_the_notebook_are_kept_and_others_discarded(notebook):
    folder = Path(notebook.value("__import__('os').getcwd()"))
    elsewhere = folder.parent / "elsewhere"

    notebook.run(f"open('kept.txt', 'w').write('from the guest'); open('{elsewhere}', 'w').write('lost')")

    assert (folder / "kept.txt").read_text() == "from the guest"
    assert notebook.value(f"open('{elsewhere}').read()") == "lost"
    assert not elsewhere.exists()


def test_the_banner_describes_the_machine(notebook):
    notebook.client.kernel_info()
    banner = notebook.client.get_shell_msg(timeout=ANSWER_S)["content"]["banner"]

    outcome = re.search(
        r"NPU lab: Linux (\S+) in a virtual machine with an emulated NPU \(8086:7d1d, intel_vpu\), "
        r"(ready [1-9]\d* s after power-on|restored from a snapshot)\.",
        banner,
    )
    assert outcome
    assert outcome[1] == notebook.value("__import__('os').uname().release")
    assert outcome[2].startswith("restored") == notebook.lab.restored


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("time.sleep(1000)", marks=pytest.mark.thorough),
        "while True:\n    pass",
        pytest.param("subprocess.run(['sleep', '1000'])", marks=pytest.mark.thorough),
    ],
    ids=["sleep", "busy", "child"],
)
def test_an_interrupt_ends_only_the_cell(notebook, body):
    notebook.run("kept = 42")

    assert notebook.interrupted(body) == "KeyboardInterrupt"
    assert notebook.value("kept") == 42


def test_a_restart_is_a_new_machine_with_the_same_ports(notebook):
    before, ports = notebook.value(BOOT_ID), [getattr(notebook.manager, name) for name in PORTS]
    pids, folder = family(notebook.lab), notebook.lab.exchange.parent
    notebook.run("name = 1; open('/tmp/of-the-old-machine', 'w').close()")

    notebook.manager.restart_kernel()
    # As front ends do: messages of the old machine are no sign that the channels reach the new one.
    notebook.client.stop_channels()
    notebook.connect()

    assert gone(pids, folder)
    assert [getattr(notebook.manager, name) for name in PORTS] == ports
    assert notebook.value(BOOT_ID) != before
    assert not notebook.value("'name' in globals()")
    assert not notebook.value("__import__('os').path.exists('/tmp/of-the-old-machine')")


@pytest.mark.thorough  # boots its own virtual machine
def test_a_hung_guest_is_shut_down_and_leaves_nothing(tmp_path):
    notebook = Notebook(tmp_path)
    pids, folder, file = family(notebook.lab), notebook.lab.exchange.parent, Path(notebook.manager.connection_file)
    assert len(pids) == 3
    assert all(map(is_alive, pids))
    assert file.exists()
    # QEMU is stopped, so neither the kernel nor the agent in the guest answers.
    qemu = next(pid for pid in pids if b"qemu" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])
    os.kill(qemu, signal.SIGSTOP)

    notebook.close()

    assert gone(pids, folder)
    assert not file.exists()


@pytest.mark.thorough  # like the notebooks in test_notebook.py
def test_a_notebook_runs_headless_on_the_kernel_named_in_the_environment(image_of, monkeypatch, tmp_path):
    image_of("6.12")
    monkeypatch.setenv("ACCEL_MAGIC_LAB_KERNEL", "6.12")
    compare = """
import json, os
hits = result.counts["hits"].groupby("function").sum()
own = load.functions["ivpu_bo_create_ioctl"]
print(json.dumps([os.uname().release, int(hits["ivpu_bo_create_ioctl"]), int(own)]))"""
    cells = [
        "%load_ext accel_magic\nfrom accel_magic.lab import npu",
        "%%ktrace intel_vpu:ivpu_* -o result\nload = npu.load(jobs=20)",
        compare,
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    before = labs()

    NotebookClient(notebook, kernel_name=NAME, timeout=ANSWER_S, resources={"metadata": {"path": tmp_path}}).execute()

    release, hits, own = json.loads(notebook.cells[2].outputs[0].text)
    assert release.startswith("6.12.")
    assert hits == own >= 20
    assert labs() <= before


async def answer(client, expression):
    message = client.execute("", user_expressions={"answer": expression})
    while (reply := await client.get_shell_msg(timeout=ANSWER_S))["parent_header"]["msg_id"] != message:
        pass
    return ast.literal_eval(reply["content"]["user_expressions"]["answer"]["data"]["text/plain"])


async def connected(manager):
    client = manager.client()
    client.start_channels()
    await client.wait_for_ready(timeout=ANSWER_S)
    return client


@pytest.mark.thorough  # boots three virtual machines
def test_two_labs_start_concurrently_and_one_that_crashes_is_restarted(tmp_path):
    async def use():
        first, second = (AsyncIOLoopKernelManager(kernel_name=NAME) for _ in range(2))
        try:
            turns = await watched(asyncio.gather(*(one.start_kernel(cwd=str(tmp_path)) for one in (first, second))))
            clients = [await connected(one) for one in (first, second)]
            ids = [await answer(client, BOOT_ID) for client in clients]

            restarted = asyncio.Event()
            first.add_restart_callback(restarted.set)
            clients[0].execute("open('/proc/sysrq-trigger', 'w').write('c')")
            await asyncio.wait_for(restarted.wait(), ANSWER_S)
            clients[0].stop_channels()
            await until(lambda: first.has_kernel)
            again = await connected(first)
            return turns, ids, await answer(again, BOOT_ID), await answer(clients[1], BOOT_ID)
        finally:
            for one in (first, second):
                await one.shutdown_kernel(now=True)

    turns, ids, again, other = asyncio.run(use())

    assert turns > 50  # the server keeps serving while the labs boot
    assert len({*ids, again}) == 3
    assert other == ids[1]


async def until(happened):
    async with asyncio.timeout(ANSWER_S):
        while not happened():  # noqa: ASYNC110 - processes and provisioners have no events
            await asyncio.sleep(0.05)


async def watched(work):
    """Await something; returns how many turns the event loop took meanwhile."""
    task, turns = asyncio.ensure_future(work), 0
    while not task.done():
        await asyncio.sleep(0.02)
        turns += 1
    await task
    return turns


@pytest.mark.thorough  # starts another virtual machine
def test_a_kernel_that_does_not_start_is_an_error_with_the_reason_and_leaves_no_lab(tmp_path):
    manager = KernelManager(kernel_name=NAME)
    manager.kernel_spec.argv = ["python", "-c", "raise SystemExit('the reason')"]
    before = labs()

    with raises("lab.kernel-not-started", MachineError) as caught:
        manager.start_kernel(cwd=str(tmp_path))

    assert caught.value.why == "the reason"
    logs = Path(re.search(r"see the logs in (.+)", caught.value.fix)[1])
    assert "the reason" in (logs / "ipykernel.log").read_text()
    assert not manager.has_kernel
    assert labs() <= before


SERVER = f"""
import sys, time
from jupyter_client import KernelManager
manager = KernelManager(kernel_name={NAME!r})
manager.start_kernel(cwd=sys.argv[1])
lab = manager.provisioner._guest.lab
print(lab._guest.keeper.pid, lab.exchange.parent, flush=True)
time.sleep(1000)
"""


@pytest.mark.thorough  # boots its own virtual machine
def test_the_lab_ends_with_a_server_that_is_killed(tmp_path):
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        keeper, folder = server.stdout.readline().split()
        children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
        pids = [int(keeper), *map(int, children)]
        assert len(pids) == 3
        assert all(map(is_alive, pids))
    finally:
        server.kill()
        server.wait()

    assert gone(pids, Path(folder))
