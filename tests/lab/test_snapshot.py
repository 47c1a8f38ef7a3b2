"""Labs that are restored from a snapshot: complete, each its own, and booted where the snapshot does not fit."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from accel_magic import codec, trace_lab
from accel_magic.lab.image import builder, snapshots, store
from accel_magic.lab.npu import Load
from accel_magic.lab.vm import ordinary_user
from accel_magic.lab.vm.lab import Lab
from accel_magic.lab.vm.lab_settings import Settings
from tests.lab.conftest import ANSWER_S
from tests.lab.test_jupyter_kernel import Notebook

pytestmark = pytest.mark.lab

FACTS = """
import json, os, random, sys
import numpy
shell = get_ipython()
print(json.dumps({
    "entropy": os.urandom(8).hex(), "random": random.random(), "numpy": numpy.random.random(),
    "boot": open("/proc/sys/kernel/random/boot_id").read(), "session": shell.kernel.session.session,
    "names": sorted(name for name in shell.user_ns if not name.startswith("_")),
    "inputs": list(In), "outputs": list(Out), "last": hasattr(sys, "last_value"),
    "history": [line for _, _, line in shell.history_manager.get_range()],
    "home": os.environ["HOME"], "folder": os.getcwd(), "variable": os.environ.get("OF_THIS_TEST"),
}))
"""
NAMES = ["In", "Out", "exit", "get_ipython", "json", "numpy", "open", "os", "quit", "random", "shell", "sys"]
EACH_ITS_OWN = ("entropy", "random", "numpy", "boot", "session")


@pytest.fixture
def restored(use_snapshots):
    """Start labs with settings; they are closed at the end."""
    started = []

    def start(**settings):
        lab = Lab(Settings(deadline_s=ANSWER_S * 4, **settings)).start()
        started.append(lab)
        assert lab.restored
        return lab

    yield start
    for lab in started:
        lab.close()


def run(lab, *command):
    done = lab.run(list(map(str, command)), cwd=Path("/"), timeout=ANSWER_S)
    assert done.status == 0, done.stderr.decode()
    return done.text


def test_a_trace_of_the_driver_is_complete(restored, load_program):
    lab = restored()
    result = trace_lab(lab, "intel_vpu:ivpu_*_ioctl", command=[str(load_program), "--json", "--jobs", "20"])

    load = Load.from_json(result.value.stdout)
    hits = result.counts["hits"].groupby("function").sum()
    assert load.ok == 20
    counted = {name: calls for name, calls in load.functions.to_dict().items() if name.startswith("ivpu_")}
    assert len(counted) > 3
    assert {name: hits[name] for name in counted} == counted


def test_the_snapshot_is_the_same_after_labs_have_used_it_and_their_npu_was_reset(restored, use_snapshots):
    lab = restored(faults=("hang-job=2",), driver_options={"tdr_timeout_ms": "500"})
    run(
        lab,
        "sh",
        "-c",
        "npu_load --jobs 4 > /tmp/out; test $? = 1; dd if=/dev/urandom of=/dev/shm/fill bs=1M count=300",
    )

    assert run(lab, "cat", "/sys/module/intel_vpu/parameters/tdr_timeout_ms").strip() == "500"
    assert snapshots.verify(use_snapshots)


def test_labs_of_one_snapshot_have_their_own_secrets_and_nothing_of_each_other(use_snapshots, tmp_path, monkeypatch):
    found = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.setenv("OF_THIS_TEST", str(number))
        notebook = Notebook(folder)
        try:
            assert notebook.lab.restored
            found.append(json.loads(notebook.run(FACTS)))
            notebook.run("kept = 1\nprint(kept)")
            assert found[-1]["folder"] == str(folder)
            assert found[-1]["variable"] == str(number)
        finally:
            notebook.close(now=True)

    for name in EACH_ITS_OWN:
        assert found[0][name] != found[1][name], name
    for facts in found:
        assert facts["names"] == NAMES
        assert [line.strip() for line in facts["inputs"]] == ["", *map(str.strip, facts["history"])]
        assert (len(facts["history"]), facts["outputs"], facts["last"]) == (1, [], False)
        assert facts["home"] == os.environ["HOME"]


def test_a_restored_notebook_traces_at_once_and_the_host_draws_its_results(use_snapshots, tmp_path):
    notebook = Notebook(tmp_path)
    try:
        notebook.run("%load_ext accel_magic\nfrom accel_magic.lab import npu")
        notebook.run("%%ktrace intel_vpu:ivpu_* -o traced\nload = npu.load(jobs=20);")
        notebook.run("from accel_magic.views import trace_html\ntrace_html.bundle = None  # what draws here")
        page = "traced._repr_mimebundle_()['text/html']"
        assert notebook.value(
            f"[page.count(text) for page in [{page}] for text in ('NPU LAB', 'accel-magic-bokehjs')]"
        )[0]
        functions = notebook.value("load.functions.to_dict()")
        hits = notebook.value("traced.counts['hits'].groupby('function').sum().to_dict()")
        calls = {name: calls for name, calls in functions.items() if name.startswith("ivpu_")}
        assert {name: hits[name] for name in calls} == calls
    finally:
        notebook.close(now=True)


def test_the_clock_and_new_files_are_those_of_this_machine(restored, tmp_path):
    (tmp_path / "new_module.py").write_text("import xmlrpc.client\nname = xmlrpc.client.__name__\n")
    lab = restored(share=(tmp_path,))
    before = time.time()
    now = float(run(lab, "date", "+%s.%N"))
    script = f"import sys; sys.path.append({str(tmp_path)!r}); import new_module; print(new_module.name)"

    assert run(lab, sys.executable, "-c", script).strip() == "xmlrpc.client"
    assert before - 1 < now < time.time() + 1
    run(lab, "sh", "-c", f"echo from the guest > {tmp_path}/written; echo lost > /var/tmp/{tmp_path.name}")
    assert (tmp_path / "written").read_text() == "from the guest\n"
    assert not Path("/var/tmp", tmp_path.name).exists()


def test_an_ordinary_users_notebook_is_the_one_that_waited_and_traces_through_the_broker(use_snapshots, tmp_path):
    tmp_path.chmod(0o777)
    notebook = Notebook(tmp_path, user="ordinary")
    try:
        assert notebook.lab.restored
        ids = notebook.value("(__import__('os').getuid(), __import__('os').getgid(), __import__('os').getgroups())")
        assert ids == (*ordinary_user.ids(), [])
        assert "--wait" in notebook.value("open('/proc/self/cmdline').read()")
        notebook.run("%load_ext accel_magic")
        notebook.run(
            "%%ktrace intel_vpu:ivpu_*_ioctl -o traced\nimport subprocess\nsubprocess.run(['npu_load', '--jobs', '7'])"
        )
        assert notebook.value("int(traced.counts['hits'].groupby('function').sum()['ivpu_cmdq_submit_ioctl'])") == 7
        assert notebook.value("'through the broker' in str(traced)")
    finally:
        notebook.close(now=True)


def test_the_accelerator_is_loaded_in_a_restored_lab(restored):
    from accel_magic.errors import MachineError
    from accel_magic.lab import image

    try:
        image.build_accelerator("7.2")
    except MachineError as error:
        pytest.skip(f"cannot build the accelerator: {error}")
    assert "renderD128" in run(restored(accelerator=True), "ls", "/dev/dri")


class Copy:
    """A cache folder like this one with a snapshot that a test may damage: the memory is a hard link until then."""

    def __init__(self, found, folder):
        self.folder = folder / "lab" / "snapshots" / Path(found.folder).name
        shutil.copytree(
            found.folder,
            self.folder,
            copy_function=lambda *of: shutil.copy2(*of) if of[0].endswith(".json") else os.link(*of),
        )
        for name in ("parts", "images"):
            (folder / "lab" / name).symlink_to(store.cache() / name)

    def change(self, **values):
        manifest = self.folder / snapshots.MANIFEST
        content = codec.from_json(manifest.read_bytes(), snapshots.Snapshot)
        manifest.unlink()
        manifest.write_bytes(codec.to_json(dataclasses.replace(content, **values)))


@pytest.fixture
def copy(use_snapshots, tmp_path, monkeypatch):
    if Path(use_snapshots.folder).stat().st_dev != tmp_path.stat().st_dev:
        pytest.skip("temporary files are on another disk than the cache")
    made = Copy(use_snapshots, tmp_path)
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path))
    return made


def reasons():
    """What a lab says while it starts."""
    lines = []
    lab = Lab(Settings(deadline_s=ANSWER_S), report=lines.append).start()
    lab.close()
    return lab.restored, " ".join(lines)


def test_a_changed_environment_boots_and_names_the_file(copy, tmp_path):
    file = tmp_path / "module.py"
    file.write_text("1")
    copy.change(environment={str(file): snapshots.Stamp.of(file)})
    image = builder.find()
    machine = {"memory_mib": 2048, "cpus": 2, "kernel_options": ""}
    assert isinstance(snapshots.find(image, machine), snapshots.Snapshot)

    file.write_text("22")

    assert str(file) in snapshots.find(image, machine)
    assert snapshots.find(image, {**machine, "cpus": 3}) == "no snapshot of this lab was made"


def test_damaged_files_boot(copy):
    ram = copy.folder / "ram"
    ram.unlink()
    ram.write_bytes(b"")
    restored, said = reasons()

    assert not restored
    assert f"{copy.folder} is damaged" in said


def test_a_snapshot_that_qemu_refuses_boots(copy):
    state = copy.folder / "state"
    state.unlink()
    state.write_bytes(b"no state")
    files = {name: snapshots.Stamp.of(copy.folder / name) for name in ("ram", "state")}
    copy.change(files=files)
    restored, said = reasons()

    assert not restored
    assert "it boots, because the snapshot did not start" in said
