from __future__ import annotations

import pytest

from accel_magic.errors import MachineError
from accel_magic.probes import kernel_functions
from tests.support.errors import raises
from tests.support.paths import ROOT

TRACEABLE = """\
vfs_read
vfs_write
ivpu_open [intel_vpu]
ivpu_ioctl\t[intel_vpu]
__ftrace_invalid_address___120
twice
twice
"""


def names(functions):
    return [function.name for function in functions]


def test_functions_of_a_module_match_by_glob(kernel_root):
    found, skipped = kernel_functions.load(kernel_root()).match("intel_vpu", "ivpu_*")
    assert names(found) == ["ivpu_dbg_show", "ivpu_fw_check_api.constprop.0", "ivpu_ioctl", "ivpu_open"]
    assert {function.module for function in found} == {"intel_vpu"}
    assert names_skipped(skipped) == {"ivpu_ioctl.cold": "cold part"}


def names_skipped(skipped):
    return {item.function: next(word for word in ("cold part", "share") if word in item.why) for item in skipped}


def test_without_a_module_all_functions_are_searched(kernel_root):
    found, _ = kernel_functions.load(kernel_root()).match("", "*_open")
    assert names(found) == ["ivpu_open"]
    found, _ = kernel_functions.load(kernel_root()).match("vmlinux", "*o*")
    assert not any(function.module for function in found)


def test_padding_markers_data_and_generated_code_are_not_functions(kernel_root):
    found, _ = kernel_functions.load(kernel_root()).match("", "*")
    assert not {"_text", "_stext", "__pfx_vfs_read", "some_data", "bpf_prog_6deef7357e7b4530"} & set(names(found))


def test_blacklisted_functions_are_omitted(kernel_root):
    assert kernel_functions.load(kernel_root()).match("", "banned") == ([], [])
    assert kernel_functions.exists("", "banned", kernel_functions.symbols(kernel_root()))


SYMBOLS = """\
ffff000000000010 T open_it
ffff000000000010 t __do_open_it
ffff000000000020 t open_it_all
ffff000000000030 t open_it\t[other]
ffff000000000040 d data_it
"""


@pytest.mark.parametrize(
    ("module", "pattern", "found"),
    [
        ("", "open_it", True),
        ("vmlinux", "open_it", True),
        ("other", "open_it", True),
        ("other", "open_it_all", False),
        ("", "pen_it", False),
        ("", "open_i", False),
        ("", "data_it", False),
        ("", "open_*_all", True),
        ("other", "open_*_all", False),
        ("other", "open*", True),
    ],
)
def test_the_symbol_table_shows_whether_a_name_exists(module, pattern, found):
    assert kernel_functions.exists(module, pattern, SYMBOLS) is found
    assert not kernel_functions.exists(module, pattern, "")


def test_a_function_that_ftrace_lists_by_another_name_is_found_by_address():
    known = kernel_functions.KernelFunctions([("", "__do_open_it", ""), ("", "open_it_all", "")], frozenset())

    found = kernel_functions.alias_of(known, "vmlinux", "open_it", SYMBOLS)
    assert (found.name, found.module, found.aliases) == ("open_it", "", ("__do_open_it",))
    assert kernel_functions.alias_of(known, "", "open_it", SYMBOLS) is None  # two functions have this name
    assert kernel_functions.alias_of(known, "other", "open_it", SYMBOLS) is None
    assert kernel_functions.alias_of(known, "", "missing", SYMBOLS) is None


def test_names_that_occur_twice_are_skipped_and_reported(kernel_root):
    found, skipped = kernel_functions.load(kernel_root()).match("", "twice")
    assert found == []
    assert names_skipped(skipped) == {"twice": "share"}


def test_names_at_one_address_are_one_function_with_the_requested_name(kernel_root):
    known = kernel_functions.load(kernel_root())
    (found,), _ = known.match("", "*_sys_getpid")
    assert (found.name, found.aliases) == ("__do_sys_getpid", ("__ia32_sys_getpid", "__x64_sys_getpid"))
    (found,), _ = known.match("", "__x64_sys_*")
    assert (found.name, found.aliases) == ("__x64_sys_getpid", ("__do_sys_getpid", "__ia32_sys_getpid"))
    (found,), _ = known.match("", "__ia32_sys_getpid")
    assert found.name == "__ia32_sys_getpid"


def test_a_clone_matches_its_functions_name_if_nothing_else_does(kernel_root):
    known = kernel_functions.load(kernel_root())
    assert names(known.match("", "split")[0]) == ["split.isra.0"]
    assert names(known.match("", "both")[0]) == ["both"]
    assert names(known.match("", "both*")[0]) == ["both", "both.constprop.0"]
    assert names(known.match("intel_vpu", "ivpu_*_api")[0]) == ["ivpu_fw_check_api.constprop.0"]


def test_hidden_addresses_do_not_merge_functions(kernel_root):
    hidden = "0000000000000000 t one\t[m]\n0000000000000000 t two\t[m]\n"
    found, _ = kernel_functions.load(kernel_root(kallsyms=hidden)).match("m", "*")
    assert names(found) == ["one", "two"]


def test_the_list_of_ftrace_is_preferred_to_the_symbol_table(kernel_root):
    found, skipped = kernel_functions.load(kernel_root(traceable=TRACEABLE)).match("", "*")
    assert names(found) == ["ivpu_ioctl", "ivpu_open", "vfs_read", "vfs_write"]
    assert names_skipped(skipped) == {"twice": "share"}


def test_a_module_loaded_later_is_found(kernel_root):
    assert kernel_functions.load(kernel_root(modules="", kallsyms="00 T a\n")).match("xe", "*")[0] == []
    root = kernel_root(modules="xe 1 0 - Live 0x0\n", kallsyms="00 T a\n00 t xe_go\t[xe]\n")
    assert names(kernel_functions.load(root).match("xe", "*")[0]) == ["xe_go"]


def test_a_kernel_whose_functions_cannot_be_listed_is_an_error(kernel_root):
    with raises("kernel.functions-unreadable", MachineError):
        kernel_functions.load(kernel_root(kallsyms=None))


def test_a_kernel_with_either_kind_of_kprobes_passes(kernel_root):
    kernel_functions.check_supported(kernel_root())
    (kernel_root(kprobes=False) / "sys/bus/event_source/devices/kprobe/type").unlink()
    (kernel_root(kprobes=False) / "sys/bus/event_source/devices/kprobe").rmdir()
    kernel_functions.check_supported(kernel_root(kprobes=False, kallsyms="00 T register_fprobe_ips\n"))
    with raises("kernel.no-kprobes", MachineError) as caught:
        kernel_functions.check_supported(kernel_root(kprobes=False, kallsyms="00 T bpf_kprobe_multi_link_attach\n"))
    assert "CONFIG_KPROBES" in caught.value.why
    assert "tracepoint:" in caught.value.fix
    assert "uprobe:" in caught.value.fix


def test_the_npu_drivers_symbols_are_parsed(kernel_root):
    sample = ROOT.parent / "shared/data/intel_vpu_symbols.txt"
    if not sample.exists():
        pytest.skip("the driver's full symbol list is not here")
    text = sample.read_text()
    found, skipped = kernel_functions.load(kernel_root(kallsyms=text)).match("intel_vpu", "ivpu_*")
    listed = [line.split("\t")[0].split() for line in text.splitlines()]
    expected = {name for _, kind, name in listed if kind == "t" and name.startswith("ivpu_")}
    assert {*names(found), *(item.function for item in skipped)} == expected
    assert {item.function for item in skipped if "cold" in item.why} == {n for n in expected if ".cold" in n}
    assert len(found) > 200
