"""Drivers are compared with the interface by their BTF, made by clang or the kernel: each difference is named."""

import contextlib
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from IPython.core.interactiveshell import InteractiveShell

import accel_magic
from accel_magic.api import driver_policy
from accel_magic.errors import MachineError, ProbeError
from accel_magic.gpu.program import bpf_elf, btf, clang
from accel_magic.gpu.program.btf import FIXED_WORDS, BtfKind
from accel_magic.gpu.program.kernel_types import KernelTypes
from accel_magic.lab.accelerator import PolicyRefusedError
from accel_magic.policies import driver, driver_engine, policy
from accel_magic.policies.driver import MODULES
from accel_magic.policies.policy import MEMORY_TABLE, SCHEDULING_TABLE
from tests.support.errors import raises

pytestmark = pytest.mark.component

VMLINUX = Path("/sys/kernel/btf/vmlinux")
needs_kernel = pytest.mark.skipif(not VMLINUX.exists(), reason="this kernel has no BTF")

MEMORY = Path(__file__).with_name("driver_types.c").read_text("utf-8")
"""A memory driver of gpu_ext's present interface, with the driver's own names for types and actions."""
SCHEDULING = """
typedef unsigned int NvU32;
typedef unsigned long long NvU64;
struct nv_gpu_task_init_ctx {
	NvU64 tsg_id;
	NvU32 engine_type;
	NvU64 default_timeslice;
	NvU32 default_interleave, runlist_id;
};
struct nv_gpu_bind_ctx {
	NvU64 tsg_id;
	NvU32 runlist_id, channel_count;
	NvU64 timeslice_us;
	NvU32 interleave_level, allow;
};
struct nv_gpu_task_destroy_ctx { NvU64 tsg_id; NvU32 runlist_id, engine_type; };
struct nv_gpu_timeslice_control_ctx {
	NvU64 tsg_id, requested_timeslice_us;
	NvU32 engine_type, runlist_id, hclient, htsg, gpu_instance, phase;
};
struct nv_gpu_sched_ops {
	int (*on_task_init)(struct nv_gpu_task_init_ctx *ctx);
	int (*on_bind)(struct nv_gpu_bind_ctx *ctx);
	int (*on_task_destroy)(struct nv_gpu_task_destroy_ctx *ctx);
	int (*on_timeslice_control)(struct nv_gpu_timeslice_control_ctx *ctx);
};
struct nv_gpu_sched_ops table;
struct nv_gpu_task_init_ctx init;
struct nv_gpu_bind_ctx bind;
struct nv_gpu_task_destroy_ctx destroy;
struct nv_gpu_timeslice_control_ctx control;
int bpf_nv_gpu_set_timeslice(struct nv_gpu_task_init_ctx *ctx, NvU64 timeslice_us) { return 0; }
int bpf_nv_gpu_set_interleave(struct nv_gpu_task_init_ctx *ctx, NvU32 interleave_level) { return 0; }
int bpf_nv_gpu_override_timeslice(struct nv_gpu_timeslice_control_ctx *ctx, NvU64 timeslice_us) { return 0; }
int bpf_nv_gpu_preempt_tsg(NvU32 hClient, NvU32 hTsg) { return 0; }
void bpf_nv_gpu_reject_bind(struct nv_gpu_bind_ctx *ctx) {}
"""
SLICES = """
#include "gpu_policy.h"
SEC("struct_ops/on_task_init")
int BPF_PROG(init, struct nv_gpu_task_init_ctx *task)
{
	return bpf_nv_gpu_set_timeslice(task, task->default_timeslice / 2);
}
SEC("struct_ops/on_bind")
int BPF_PROG(bind, struct nv_gpu_bind_ctx *task)
{
	if (task->interleave_level)
		bpf_nv_gpu_reject_bind(task);
	return 0;
}
SEC(".struct_ops.link") struct nv_gpu_sched_ops ops = { .on_task_init = (void *)init, .on_bind = (void *)bind };
"""
"""A scheduling policy that does not use the newest hook."""
OVERRIDE = (
    "int bpf_nv_gpu_override_timeslice(struct nv_gpu_timeslice_control_ctx *ctx, NvU64 timeslice_us) { return 0; }\n"
)
LAST_HOOK = "	int (*on_timeslice_control)(struct nv_gpu_timeslice_control_ctx *ctx);\n"


def types_of(source):
    """BTF of C, as clang writes it."""
    compiled = subprocess.run(
        [clang.find_clang().path, "-target", "bpf", "-O2", "-g", "-x", "c", "-c", "-o", "-", "-"],
        input=source.encode(),
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    return bpf_elf.read_elf(compiled, "driver.c").described(".BTF")


def machine(folder, source="", table=MEMORY_TABLE, *, loaded=True):
    """A machine's sysfs whose driver has the BTF of this C."""
    module = MODULES[table]
    (folder / "kernel/btf").mkdir(parents=True)
    if loaded:
        (folder / "module" / module).mkdir(parents=True)
    if source:
        (folder / "kernel/btf" / module).write_bytes(types_of(source))
    return folder


def compared(name, source, folder):
    loaded = policy.load(name)
    return driver.compare(loaded, driver.read(loaded.table, sysfs=machine(folder, source, loaded.table)))


def differences(name, source, folder):
    return compared(name, source, folder).differences


@pytest.mark.parametrize("name", policy.shipped())
def test_every_shipped_policy_matches_a_driver_with_the_drivers_own_names_for_types(name, tmp_path):
    source = SCHEDULING if policy.load(name).table == SCHEDULING_TABLE else MEMORY
    assert compared(name, source, tmp_path).differences == ()


def test_scheduling_policies_match_drivers_with_and_without_the_newest_hook(tmp_path):
    older = SCHEDULING
    for newest in (
        LAST_HOOK,
        " NvU32 runlist_id, engine_type; };",
        "struct nv_gpu_timeslice_control_ctx control;\n",
        OVERRIDE,
    ):
        assert older.count(newest) == 1
        older = older.replace(newest, " };" if newest.endswith("};") else "")
    assert differences(SLICES, SCHEDULING, tmp_path / "new") == ()
    assert differences(SLICES, older, tmp_path / "old") == ()
    loaded = policy.load(SLICES)
    newest = replace(loaded, hooks={**loaded.hooks, "on_timeslice_control": loaded.hooks["on_bind"]})
    found = driver.compare(newest, driver.read(loaded.table, sysfs=tmp_path / "old")).differences
    assert found == (
        "struct nv_gpu_sched_ops has no on_timeslice_control",
        "there is no struct nv_gpu_timeslice_control_ctx",
    )


def test_members_after_the_known_ones_are_allowed_and_named(tmp_path):
    newer = SCHEDULING.replace(LAST_HOOK, f"{LAST_HOOK}\tint (*on_reset)(int why);\n")
    found = compared(SLICES, newer, tmp_path)
    assert found.differences == ()
    assert any("on_reset" in note for note in found.notes)


ACTIVATE = (
    "	int (*gpu_block_activate)(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision);\n"
)
ACCESS = ACTIVATE.replace("activate", "access")
CHANGES = {
    "a member is missing": (ACTIVATE, "", "lfu", ["struct gpu_mem_ops has no gpu_block_activate"]),
    "another order": (
        ACTIVATE + ACCESS,
        ACCESS + ACTIVATE,
        "lru",
        ["struct gpu_mem_ops has its members in another order: ", "gpu_block_access, gpu_block_activate"],
    ),
    "a new member in the middle": (
        ACTIVATE,
        "\tint (*gpu_new)(int);\n" + ACTIVATE,
        "lru",
        ["struct gpu_mem_ops has an unknown member gpu_new among the known ones"],
    ),
    "another argument": (
        ACTIVATE,
        ACTIVATE.replace("uvm_bpf_pmm_decision_ctx_t *decision", "struct list_head *list"),
        "lru",
        [
            "gpu_mem_ops.gpu_block_activate is s32 (",
            "struct list_head *), not s32 (",
            "struct uvm_bpf_pmm_decision_ctx *)",
        ],
    ),
    "another size": (
        "nv_gpu_pmm_request_t request;",
        "nv_gpu_pmm_request_t request; NvU64 more;",
        "lru",
        ["struct uvm_bpf_pmm_decision_ctx has 80 bytes, not 72"],
    ),
    "another size of prefetching": (
        "nv_gpu_prefetch_decision_t request;",
        "nv_gpu_prefetch_decision_t request; int more;",
        "prefetch_max",
        ["struct uvm_bpf_prefetch_decision has 32 bytes, not 24"],
    ),
    "another place of the list": (
        "	struct list_head list;",
        "	long more; struct list_head list;",
        "lfu",
        ["uvm_gpu_chunk_struct.list is at byte 24, not 16"],
    ),
    "another value": (
        "NV_GPU_PMM_POSITION_TAIL = 2",
        "NV_GPU_PMM_POSITION_TAIL = 3",
        "lru",
        ["NV_GPU_PMM_POSITION_TAIL is 3, not 2"],
    ),
    "another action": (
        "UVM_BPF_ACTION_DEFAULT, UVM_BPF_ACTION_BYPASS,",
        "UVM_BPF_ACTION_BYPASS, UVM_BPF_ACTION_DEFAULT,",
        "lru",
        ["UVM_BPF_ACTION_DEFAULT is 1, not 0", "UVM_BPF_ACTION_BYPASS is 0, not 1"],
    ),
    "no values": (
        "enum nv_gpu_pmm_position position;",
        "",
        "lru",
        ["there is no NV_GPU_PMM_POSITION_HEAD", "there is no NV_GPU_PMM_POSITION_TAIL"],
    ),
    "a parameter is missing": (
        "u64 destination, u64 position) {",
        "u64 destination) {",
        "lru",
        ["bpf_gpu_request_reorder is s32 (struct uvm_bpf_pmm_decision_ctx *, u64), not s32 (", "u64, u64)"],
    ),
    "a narrower parameter": (
        "u64 first, u64 outer) {",
        "u64 first, NvU16 outer) {",
        "prefetch_max",
        ["bpf_gpu_set_prefetch_region is s32 (struct uvm_bpf_prefetch_decision *, u64, u16), not s32 ("],
    ),
    "no function": (
        "int bpf_gpu_request_reorder",
        "int reorder",
        "lru",
        ["no kernel function bpf_gpu_request_reorder"],
    ),
    "no field": (
        "struct task_struct { int tgid; }",
        "struct task_struct { int pid; }",
        "quota",
        ["task_struct.tgid, which"],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_difference_is_named_and_nothing_else(change, tmp_path):
    old, new, name, expected = CHANGES[change]
    assert MEMORY.count(old) == 1
    found = differences(name, MEMORY.replace(old, new), tmp_path)
    text = "\n".join(found)
    for words in expected:
        assert words in text
    assert all(any(words in one for words in expected) for one in found), found


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "runlist_id, channel_count;",
            "runlist_id, channel_count; NvU64 more;",
            "nv_gpu_bind_ctx has 40 bytes, not 32",
        ),
        ("htsg, gpu_instance, phase;", "htsg;", "nv_gpu_timeslice_control_ctx has 32 bytes, not 40"),
        ("	int (*on_bind)(struct nv_gpu_bind_ctx *ctx);\n", "", "struct nv_gpu_sched_ops has no on_bind"),
        (
            "(struct nv_gpu_task_init_ctx *ctx, NvU64 timeslice_us)",
            "(int tsg)",
            "bpf_nv_gpu_set_timeslice is s32 (s32)",
        ),
    ],
)
def test_differences_of_scheduling_are_named(old, new, expected, tmp_path):
    assert SCHEDULING.count(old) == 1
    (found,) = differences(SLICES, SCHEDULING.replace(old, new), tmp_path)
    assert expected in found


def test_all_differences_are_in_one_error(tmp_path):
    source = MEMORY.replace("NV_GPU_PMM_POSITION_TAIL = 2", "NV_GPU_PMM_POSITION_TAIL = 3").replace(ACCESS, "")
    with raises("policy.other-driver", MachineError) as caught:
        driver.require(policy.load("lru"), sysfs=machine(tmp_path, source))
    assert "has no gpu_block_access" in caught.value.why
    assert "NV_GPU_PMM_POSITION_TAIL is 3, not 2" in caught.value.why


FIRST = "struct uvm_gpu_ext { int (*uvm_prefetch_before_compute)(int); } *table;"
SECOND = MEMORY.replace(
    "int bpf_gpu_request_reorder",
    "void bpf_gpu_block_move_head(uvm_gpu_chunk_t *chunk, struct list_head *list) {}\nint bpf_gpu_request_reorder",
)


@pytest.mark.parametrize(
    ("source", "loaded", "expected"),
    [
        ("", False, "there is no NVIDIA driver"),
        ("", True, "nvidia_uvm is loaded, but has no BTF"),
        ("struct nv_stock { int x; } *stock;", True, "no struct gpu_mem_ops: it is not gpu_ext's driver"),
        (FIRST, True, "gpu_ext's first interface (struct uvm_gpu_ext)"),
        (SECOND, True, "gpu_ext's second interface: its policies move blocks on raw lists (bpf_gpu_block_move_head)"),
    ],
)
def test_what_is_missing_is_named(source, loaded, expected, tmp_path):
    with raises("policy.no-driver", MachineError) as caught:
        driver.read(MEMORY_TABLE, sysfs=machine(tmp_path, source, loaded=loaded))
    assert expected in caught.value.why
    assert caught.value.fix


def test_a_module_that_is_not_loaded_beside_the_other_is_named(tmp_path):
    machine(tmp_path, SCHEDULING, SCHEDULING_TABLE)
    with raises("policy.no-driver", MachineError) as caught:
        driver.read(MEMORY_TABLE, sysfs=tmp_path)
    assert caught.value.why == "nvidia is loaded, but not nvidia_uvm"
    assert caught.value.fix == "load it: modprobe nvidia_uvm"


def test_damaged_types_are_an_error(tmp_path):
    machine(tmp_path, MEMORY)
    file = tmp_path / "kernel/btf/nvidia_uvm"
    file.write_bytes(file.read_bytes()[:200])
    with raises("policy.no-driver", MachineError):
        driver.read(MEMORY_TABLE, sysfs=tmp_path)


@needs_kernel
def test_this_kernel_is_no_driver(tmp_path):
    (tmp_path / "kernel/btf").mkdir(parents=True)
    (tmp_path / "kernel/btf/nvidia_uvm").write_bytes(VMLINUX.read_bytes())
    with raises("policy.no-driver", MachineError) as caught:
        driver.read(MEMORY_TABLE, sysfs=tmp_path)
    assert "no struct gpu_mem_ops" in caught.value.why


# Of each kind of type: which of its words are numbers of types, and which offsets of texts.
REFERRING = (
    *(BtfKind.PTR, BtfKind.TYPEDEF, BtfKind.VOLATILE, BtfKind.CONST, BtfKind.RESTRICT, BtfKind.TYPE_TAG),
    *(BtfKind.FUNC, BtfKind.FUNC_PROTO, BtfKind.VAR, BtfKind.DECL_TAG),
)
MEMBERS = {
    BtfKind.STRUCT: (3, "tn."),
    BtfKind.UNION: (3, "tn."),
    BtfKind.ENUM: (2, "t."),
    BtfKind.FUNC_PROTO: (2, "tn"),
}
MEMBERS |= {BtfKind.DATASEC: (3, "n.."), BtfKind.ENUM64: (3, "t.."), BtfKind.ARRAY: (3, "nn.")}


def split(data, base):
    """Complete BTF as a module's: numbers and texts go on where those of the base end; `list_head` is the base's."""
    start, size, texts, texts_size = struct.unpack_from("<IIII", data, 8)
    first = len(btf.parse(base).types) - 1
    offset = struct.unpack_from("<I", base, 20)[0]
    shared = next(
        number
        for number, one in enumerate(btf.parse(base).types)
        if one.kind is BtfKind.STRUCT and one.name == "list_head"
    )
    own = next(number for number, one in enumerate(btf.parse(data).types) if one.name == "list_head")

    def moved(word, what):
        if what == "n":
            return shared if word == own else word + first if word else 0
        return (word + offset - 1 if word else 0) if what == "t" else word

    made, at, end = bytearray(), 24 + start, 24 + start + size
    while at < end:
        name, info, number = struct.unpack_from("<III", data, at)
        kind, count = BtfKind(info >> 24 & 0x1F), info & 0xFFFF
        width, what = MEMBERS.get(kind, (FIXED_WORDS.get(kind, 0), "..."))
        count = width * (1 if kind in FIXED_WORDS else count)
        words = struct.unpack_from(f"<{count}I", data, at + 12)
        number = moved(number, "n" if kind in REFERRING else ".")
        made += struct.pack("<III", moved(name, "t"), info, number)
        made += struct.pack(f"<{count}I", *(moved(word, what[place % width]) for place, word in enumerate(words)))
        at += 12 + 4 * count
    text = data[24 + texts + 1 : 24 + texts + texts_size]
    return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(made), len(made), len(text)) + made + text


@needs_kernel
def test_modules_whose_types_go_on_where_the_kernels_end_are_read(tmp_path):
    base, whole = VMLINUX.read_bytes(), types_of(MEMORY)
    machine(tmp_path)
    (tmp_path / "kernel/btf/vmlinux").write_bytes(base)
    (tmp_path / "kernel/btf/nvidia_uvm").write_bytes(split(whole, base))
    found = driver.read(MEMORY_TABLE, sysfs=tmp_path)
    assert driver.compare(policy.load("lfu"), found).differences == ()
    assert found.types.hooks(MEMORY_TABLE)["gpu_evict_prepare"].count("struct list_head *") == 2
    # The list in a chunk is the kernel's own struct: its members are found through the module's.
    assert KernelTypes(found.data).read("uvm_gpu_chunk_struct", 16, 8) == "list_head"


@needs_kernel
def test_modules_of_this_kernel_are_read():
    modules = [path for path in VMLINUX.parent.iterdir() if path != VMLINUX]
    if not modules:
        pytest.skip("no module of this kernel has BTF")
    base = btf.parse(VMLINUX.read_bytes())
    for path in modules[:3]:
        found = btf.parse(btf.joined(VMLINUX.read_bytes(), path.read_bytes()))
        assert found.types[: len(base.types)] == base.types
        numbers = {
            number for one in found.types[len(base.types) :] if one.kind is BtfKind.STRUCT for number in one.words[1::3]
        }
        assert any(0 < number < len(base.types) and found.resolved(number).kind for number in numbers)


def test_complete_types_are_not_joined():
    whole = types_of(MEMORY)
    assert btf.joined(b"", whole) == whole


def test_a_process_without_privilege_is_refused_before_anything_is_loaded(monkeypatch):
    held = driver_engine.features.Capabilities(frozenset({"CAP_BPF", "CAP_PERFMON"}), initial_user_namespace=True)
    monkeypatch.setattr(driver_engine.features, "capabilities", lambda: held)
    with raises("policy.no-privilege", MachineError):
        driver_engine.OnDriver(policy.load("lru"))


def test_without_the_loaders_libraries_the_command_that_builds_them_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises("policy.no-loader", MachineError) as caught:
        driver_engine.loader(tmp_path)
    assert "lab build --accelerator" in caught.value.fix


def test_traces_and_tenants_are_refused_by_name():
    for call in (
        lambda: accel_magic.gpupolicy("lru", "loop", engine="driver"),
        lambda: accel_magic.gpuschedule("timeslices", "a:work=1ms", engine="driver"),
    ):
        with raises("policy.needs-cell", ProbeError) as caught:
            call()
        assert "cell" in caught.value.fix


@pytest.mark.skipif(Path("/sys/module/nvidia_uvm").exists(), reason="this machine has an NVIDIA driver")
def test_without_a_driver_the_block_never_runs():
    ran = []
    with raises("policy.no-driver", MachineError), accel_magic.attach_policy("lru"):
        ran.append(1)
    assert ran == []


class Loaded:
    """Replaces the loaded policy: it logs what is done with it."""

    log: ClassVar[list] = []

    def __init__(self, loaded):
        self.log.append(f"load {loaded.name}")
        self.attached = False

    def attach(self):
        self.attached = True
        self.log.append("attach")

    def detach(self):
        if self.attached:
            self.log.append("detach")
        self.attached = False

    close = detach

    def maps(self):
        self.log.append("read")
        return ()

    def unread(self):
        return ()


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A machine with a memory driver, to which policies seem to be attached; yields what was done."""
    found = machine(tmp_path, MEMORY)
    monkeypatch.setattr(driver.read, "__kwdefaults__", {"module": "", "sysfs": found})
    monkeypatch.setattr(driver.require, "__kwdefaults__", {"module": "", "sysfs": found})
    monkeypatch.setattr(driver_policy, "OnDriver", Loaded)
    monkeypatch.setattr(Loaded, "log", [])
    return Loaded.log


ALL = ["load lru", "read", "attach", "ran", "detach", "read"]


@pytest.mark.parametrize("raised", [None, ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_a_policy_is_detached_however_the_block_ends(raised, log):
    with contextlib.suppress(*([raised] if raised else [])), accel_magic.attach_policy("lru") as block:
        log.append("ran")
        if raised:
            raise raised
    assert log == ALL
    outcome = {None: "ok", KeyboardInterrupt: "interrupted"}.get(raised, "error")
    assert (block.result.run.outcome, block.result.run.module) == (outcome, "nvidia_uvm")
    assert accel_magic.last is block.result


def test_a_policy_that_cannot_be_attached_is_closed_and_another_can_follow(log, monkeypatch):
    def refuse(self):
        self.attached = True  # as far as `close` knows
        raise PolicyRefusedError("lru", "another policy is attached")

    with monkeypatch.context() as patched, raises("policy.refused-by-kernel"):
        patched.setattr(Loaded, "attach", refuse)
        with accel_magic.attach_policy("lru"):
            log.append("ran")
    assert log == ["load lru", "read", "detach"]
    log.clear()
    with accel_magic.attach_policy("lru"):
        log.append("ran")
    assert log == ALL


def test_settings_that_the_policy_lacks_are_refused(log):
    with (
        raises("program.bad-setting", ProbeError, match="quota"),
        accel_magic.attach_policy("lru", settings={"quota": 1}),
    ):
        pass
    assert log == []


@pytest.fixture
def shell():
    made = InteractiveShell.instance()
    made.run_line_magic("load_ext", "accel_magic")
    yield made
    made.run_line_magic("unload_ext", "accel_magic")
    InteractiveShell.clear_instance()


def test_the_magic_runs_the_cell_once_under_the_policy(log, shell):
    shell.user_ns["log"] = log
    result = shell.run_cell_magic("gpupolicy", "lru --engine driver -o p", "log.append('ran')\n7")
    assert log == ALL
    assert shell.user_ns["p"] is result is accel_magic.last
    assert result.value == 7
    log.clear()
    with pytest.raises(ZeroDivisionError):
        shell.find_cell_magic("gpupolicy")("lru --engine driver -o q", "log.append('ran')\n1 / 0")
    assert log == ALL
    assert shell.user_ns["q"].run.outcome == "error"


def test_lines_without_a_meaning_for_a_driver_are_refused_before_the_cell_runs(log, shell):
    magic = shell.find_cell_magic("gpupolicy")
    for line, cell, code in (
        ("lru --engine driver", None, "policy.needs-cell"),
        ("lru --engine driver --trace loop", None, "policy.needs-cell"),
        ("lru --engine driver --trace loop", "1", "policy.needs-cell"),
        ("timeslices --engine driver --tenants a:work=1ms", None, "policy.needs-cell"),
        ("lru --engine driver --memory 4", "1", "option.conflict"),
        ("lru --engine driver --faults-only", "1", "option.conflict"),
        ("lru mru --engine driver", "1", "policy.one-at-a-time"),
    ):
        with raises(code, ProbeError):
            magic(line, cell)
    with pytest.raises(SyntaxError):
        magic("lru --engine driver", "1 +")
    assert log == []
