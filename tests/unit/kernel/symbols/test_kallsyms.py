"""Functions of the kernel by address, from fake /proc files."""

import numpy as np
import pytest

from accel_magic.kernel.symbols import kallsyms

KALLSYMS = """\
ffffffff81000000 T _stext
ffffffff81000000 T startup_64
ffffffff81000100 t do_work
ffffffff81000180 T vfs_read
ffffffff81000200 T _etext
ffffffff82000000 D some_data
ffffffffc0000000 t ivpu_open\t[intel_vpu]
ffffffffc0000020 t ivpu_ioctl\t[intel_vpu]
ffffffffc0008000 t bpf_prog_6deef7357e7b4530\t[bpf]
"""
MODULES = "intel_vpu 4096 0 - Live 0xffffffffc0000000\n"


@pytest.fixture
def root(tmp_path):
    def build(symbols=KALLSYMS, modules=MODULES, boot="one"):
        for name, text in (("kallsyms", symbols), ("modules", modules), ("sys/kernel/random/boot_id", boot)):
            (tmp_path / "proc" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "proc" / name).write_text(text)
        return tmp_path

    return build


def names(known, *addresses):
    return [known.name(at) if at >= 0 else None for at in known.at(np.array(addresses, np.uint64)).tolist()]


def test_an_address_belongs_to_the_function_before_it_in_the_same_module(root):
    known = kallsyms.functions(root())
    assert names(known, 0xFFFFFFFF81000100, 0xFFFFFFFF8100017F, 0xFFFFFFFF81000180) == [
        ("do_work", ""),
        ("do_work", ""),
        ("vfs_read", ""),
    ]
    assert names(known, 0xFFFFFFFFC0000021, 0xFFFFFFFFC0000FFF) == [("ivpu_ioctl", "intel_vpu")] * 2


def test_addresses_after_the_kernel_or_a_module_have_no_function(root):
    known = kallsyms.functions(root())
    # after _etext, after the module, in an unnamed BPF program
    assert names(known, 0xFFFFFFFF81000200, 0xFFFFFFFFC0001000, 0xFFFFFFFFC0008000, 0) == [None] * 4


def test_the_list_is_read_again_only_when_a_module_is_loaded(root, monkeypatch):
    known = kallsyms.functions(root(modules=""))
    assert kallsyms.functions(root(modules="")) is known
    more = kallsyms.functions(root())
    assert names(more, 0xFFFFFFFFC0000021) == [("ivpu_ioctl", "intel_vpu")]


def test_hidden_addresses_give_no_functions(root):
    hidden = "\n".join(f"{0:016x}{line[16:]}" for line in KALLSYMS.splitlines())
    assert len(kallsyms.functions(root(hidden, boot="hidden")).starts) == 0
    assert len(kallsyms.functions(root("", boot="unreadable")).starts) == 0
