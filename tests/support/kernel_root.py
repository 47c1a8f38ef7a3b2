"""Fake /proc and /sys trees, and small compiled programs."""

from __future__ import annotations

import shutil
import subprocess

import pytest

KALLSYMS = """\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000010 T __pfx_vfs_read
ffffffff81000020 T vfs_read
ffffffff81000060 t vfs_read.cold
ffffffff81000080 T vfs_write
ffffffff810000a0 t twice
ffffffff810000c0 t twice
ffffffff810000e0 T __do_sys_getpid
ffffffff810000e0 T __ia32_sys_getpid
ffffffff810000e0 T __x64_sys_getpid
ffffffff81000100 t split.isra.0
ffffffff81000120 t both
ffffffff81000140 t both.constprop.0
ffffffff81000160 T banned
ffffffff82000000 D some_data
ffffffffc0000000 t ivpu_open\t[intel_vpu]
ffffffffc0000020 t ivpu_ioctl\t[intel_vpu]
ffffffffc0000040 t ivpu_ioctl.cold\t[intel_vpu]
ffffffffc0000060 t ivpu_fw_check_api.constprop.0\t[intel_vpu]
ffffffffc0000080 t ivpu_dbg_show\t[intel_vpu]
ffffffffc00000a0 d ivpu_pci_driver\t[intel_vpu]
ffffffffc0010000 t bpf_prog_6deef7357e7b4530\t[bpf]
"""
MODULES = "intel_vpu 274432 0 - Live 0xffffffffc0000000\ndrm 737280 1 intel_vpu, Live 0x0000000000000000\n"
BLACKLIST = "0xffffffff81000160-0xffffffff81000180\tbanned\n"


@pytest.fixture
def kernel_root(tmp_path):
    """Build a folder used as `/` of a machine with kprobes: `kernel_root(kallsyms=..., kprobes=False)`."""

    def build(*, kallsyms=KALLSYMS, modules=MODULES, blacklist=BLACKLIST, traceable=None, kprobes=True, built_in=()):
        files = {
            "proc/kallsyms": kallsyms,
            "proc/modules": modules,
            "sys/kernel/debug/kprobes/blacklist": blacklist,
            "sys/kernel/tracing/available_filter_functions": traceable,
            "sys/bus/event_source/devices/kprobe/type": "8\n" if kprobes else None,
        }
        for name, text in files.items():
            if text is not None:
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).write_text(text)
        for module in built_in:
            (tmp_path / "sys/module" / module).mkdir(parents=True)
        return tmp_path

    return build


@pytest.fixture
def compiled(tmp_path):
    """Compile C: `compiled(text, "name", "-shared", "-fPIC")` returns the file's path."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")

    def build(text, name, *options):
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        subprocess.run(["gcc", *options, "-o", tmp_path / name, source], check=True)
        return tmp_path / name

    return build
