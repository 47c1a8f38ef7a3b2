"""The lab's Level Zero without a lab: layouts, the driver library without an NPU, results of a load."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from accel_magic.c_programs import compile_program
from accel_magic.errors import MachineError, ProbeError
from accel_magic.lab import level_zero, npu
from accel_magic.lab.device import commands
from accel_magic.lab.image import store
from accel_magic.lab.level_zero import parts
from accel_magic.lab.models import protocol
from accel_magic.lab.npu import level_zero_load
from accel_magic.lab.vm import lab_settings
from accel_magic.lab.vm.lab import environment
from accel_magic.lab.vm.lab_settings import Settings
from tests.support.errors import raises

pytestmark = pytest.mark.component

COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
no_npu = pytest.mark.skipif(Path("/dev/accel").exists(), reason="there may be an NPU")
SOURCES = Path(level_zero.__file__).parent
UNINITIALIZED, UNSUPPORTED_VERSION = 0x78000001, 0x78000002

# The specification's structures, from the published headers of 1.8 and 1.27: size, offsets.
ABI = {
    "ze_flags_description": (24, {"kind": 0, "next": 8, "flags": 16}),
    "ze_ordinal_description": (24, {"kind": 0, "next": 8, "ordinal": 16, "flags": 20}),
    "ze_queue_description": (40, {"next": 8, "ordinal": 16, "index": 20, "flags": 24, "mode": 28, "priority": 32}),
    "ze_driver_properties": (40, {"uuid": 16, "version": 32}),
    "ze_device_properties": (
        368,
        {
            "type": 16,
            "vendor": 20,
            "device": 24,
            "flags": 28,
            "subdevice": 32,
            "clock_mhz": 36,
            "most_memory": 40,
            "most_contexts": 48,
            "most_priority": 52,
            "compute_units": 56,
            "timer_resolution": 80,
            "timestamp_bits": 88,
            "kernel_timestamp_bits": 92,
            "uuid": 96,
            "name": 112,
        },
    ),
    "ze_queue_group_properties": (40, {"flags": 16, "most_fill_pattern": 24, "queues": 32}),
}
# Those of the NPU extensions, from the published headers of the graph extension 1.18.
NPU_ABI = {
    "npu_graph_description": (56, {"format": 16, "size": 24, "input": 32, "build_flags": 40, "flags": 48}),
    "npu_device_graph_properties": (
        56,
        {"version": 16, "compiler_major": 20, "formats": 24, "opset": 28, "elf": 32, "runtime": 44},
    ),
    "npu_graph_properties": (32, {"arguments": 16, "stages": 20, "flags": 24}),
    "npu_argument_properties": (
        8776,
        {
            "name": 16,
            "type": 272,
            "dimensions": 276,
            "network_precision": 296,
            "device_layout": 308,
            "scale": 312,
            "zero_point": 316,
            "rank": 320,
            "friendly_name": 324,
            "names": 580,
            "names_count": 8772,
        },
    ),
    "npu_argument_metadata": (
        8800,
        {
            "type": 16,
            "friendly_name": 20,
            "data_type": 276,
            "shape": 280,
            "rank": 344,
            "names": 348,
            "names_count": 8540,
            "name": 8544,
        },
    ),
    "npu_strides": (24, {"can_change": 16}),
    "npu_tensor": (24, {"memory": 16}),
    "npu_memory": (16, {"total": 0, "allocated": 8}),
    "npu_layer": (
        368,
        {
            "type": 256,
            "status": 308,
            "start_ns": 312,
            "duration_ns": 320,
            "id": 328,
            "fused_id": 336,
            "dpu_ns": 344,
            "dma_ns": 360,
        },
    ),
}
# The functions of the graph extension in the order of its table, from the same headers.
GRAPH_TABLE = (
    *("Create", "Destroy", "GetProperties", "GetArgumentProperties", "SetArgumentValue", "AppendGraphInitialize"),
    *("AppendGraphExecute", "GetNativeBinary", "DeviceGetGraphProperties", "GraphGetArgumentMetadata"),
    *("GetArgumentProperties2", "GetArgumentProperties3", "QueryNetworkCreate", "QueryNetworkDestroy"),
    *("QueryNetworkGetSupportedLayers", "BuildLogGetString", "Create2", "QueryNetworkCreate2", "QueryContextMemory"),
    *("DeviceGetGraphProperties2", "GetNativeBinary2", "GetProperties2", "GraphInitialize"),
    *("CompilerGetSupportedOptions", "CompilerIsOptionSupported", "Create3", "GetProperties3", "BuildLogGetString2"),
    *("BuildLogDestroy", "SetArgumentValue2", "Evict"),
)
# Index of each function that the driver fills in its table, from the same headers.
PLACES = {
    "Global": {0},
    "Driver": {0, 1, 2, 4, 5},
    "Device": {0, 2, 5, 10, 13, 14, 17},
    "Context": {0, 1},
    "CommandQueue": {0, 1, 2, 3},
    "CommandList": {0, 1, 2, 3, 4, 5, 6, 8, 18, 19, 20},
    "CommandListExp": set(),
    "Fence": {0, 1, 2, 3, 4},
    "Mem": {0, 1, 2, 3, 4, 5},
    "EventPool": {0, 1},
    "Event": {0, 1, 2, 3, 4, 5},
    "Module": set(),
}


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """The driver library, loaded into this process."""
    return ctypes.CDLL(str(compile_program(parts.DRIVER, tmp_path_factory.mktemp("driver"))))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "lab"


@pytest.fixture
def no_lab(monkeypatch):
    for name in ("ACCEL_MAGIC_LAB", "LD_LIBRARY_PATH", parts.DRIVERS):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def built(cache, monkeypatch):
    """An empty library in the cache as the loader."""
    loader = cache / "parts" / "level-zero" / "libze_loader.so.1"
    loader.parent.mkdir(parents=True)
    subprocess.run([COMPILER, "-shared", "-o", loader, "-x", "c", os.devnull], check=True)
    monkeypatch.setattr(parts, "find_level_zero", lambda: loader)
    return loader


@needs_compiler
@pytest.mark.parametrize(("header", "abi"), [("ze_api.h", ABI), ("npu_api.h", NPU_ABI)])
def test_structures_match_the_specification(tmp_path, header, abi):
    checks = [
        f'_Static_assert(sizeof(struct {name}) == {size}, "{name}");'
        + "".join(
            f'_Static_assert(offsetof(struct {name}, {field}) == {at}, "{name}.{field}");'
            for field, at in offsets.items()
        )
        for name, (size, offsets) in abi.items()
    ]
    source = tmp_path / "check.c"
    source.write_text(f'#include "{header}"\n' + "\n".join(checks))

    done = subprocess.run(
        [COMPILER, "-std=gnu11", "-fsyntax-only", "-I", SOURCES, source], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_the_graph_extension_has_its_functions_in_the_specifications_order():
    header = (SOURCES / "npu_api.h").read_text()
    table = header[header.index("#define GRAPH_FUNCTIONS") : header.index("#define PROFILING_FUNCTIONS")]

    assert tuple(re.findall(r"F\(pfn(\w+),", table)) == GRAPH_TABLE


@needs_compiler
def test_the_device_reads_what_the_driver_writes(tmp_path):
    layouts = {
        "job_header": commands.HEADER,
        "job_command": commands.COMMAND,
        "job_span": commands.SPAN,
        "job_answer": commands.ANSWER,
        "job_graph": protocol.GRAPH,
        "job_argument": protocol.ARGUMENT,
        "npu_layer": protocol.LAYER,
    }
    numbers = {name.upper(): getattr(commands, name) for name in ("EXECUTE", "COPY", "LOAD", "AWAIT", "UNLOAD")}
    checks = [f'_Static_assert(sizeof(struct {name}) == {each.size}, "{name}");' for name, each in layouts.items()]
    checks += [f'_Static_assert(JOB_{name} == {number}, "{name}");' for name, number in numbers.items()]
    checks += [
        f'_Static_assert({name} == {number}, "{name}");'
        for name, number in {
            "JOB_AT": commands.JOB_AT,
            "JOB_MAGIC": commands.MAGIC,
            "JOB_LARGEST": commands.LARGEST,
            "SLOT_SIZE": protocol.SLOT_SIZE,
            "JOB_NOT_READY": commands.NOT_READY,
        }.items()
    ]
    source = tmp_path / "check.c"
    source.write_text('#include "lab_driver.h"\n' + "\n".join(checks))

    done = subprocess.run(
        [COMPILER, "-std=gnu11", "-fsyntax-only", "-I", SOURCES, source], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


@needs_compiler
@pytest.mark.parametrize("table", PLACES)
def test_the_driver_fills_only_the_entries_of_its_functions(driver, table):
    entries = (ctypes.c_void_p * 40)()
    getter = getattr(driver, f"zeGet{table}ProcAddrTable")

    assert getter(0x10005, entries) == 0
    assert {place for place, entry in enumerate(entries) if entry} == PLACES[table]
    assert getter(0x20000, entries) == UNSUPPORTED_VERSION


@needs_compiler
def test_functions_of_newer_loaders_are_filled_only_for_those(driver):
    for table, since, places in (("CommandList", 6, {28}), ("CommandListExp", 9, {2, 3})):
        getter = getattr(driver, f"zeGet{table}ProcAddrTable")
        for minor in (since - 1, since):
            entries = (ctypes.c_void_p * 40)()
            assert getter(1 << 16 | minor, entries) == 0
            filled = {place for place, entry in enumerate(entries) if entry}
            assert filled & places == (places if minor == since else set())


@needs_compiler
def test_a_loader_without_what_openvino_looks_up_gets_a_copy_that_needs_a_library_with_it(built, tmp_path):
    built.write_bytes(library(tmp_path, "int zeOld(void) { return 7; }"))
    completed = level_zero.find().loader
    old, new = ctypes.CDLL(str(built)), ctypes.CDLL(str(completed))

    assert completed == level_zero.find().loader
    assert completed != built
    assert not hasattr(old, "zeCommandListHostSynchronize")
    assert (new.zeOld(), new.zeCommandListHostSynchronize(None, 0)) == (7, ctypes.c_int(0x78000003).value)
    assert symbols_of(completed) == symbols_of(built)


@needs_compiler
def test_a_loader_that_has_what_openvino_looks_up_is_used_as_it_is(built, tmp_path):
    built.write_bytes(library(tmp_path, "int zeCommandListHostSynchronize(void) { return 7; }"))

    assert level_zero.find().loader == built


@needs_compiler
@pytest.mark.parametrize(
    "damage",
    [lambda content: b"", lambda content: b"loader", lambda content: content[:200], lambda content: bytes(5000)],
)
def test_a_loader_that_is_no_library_is_an_error(built, tmp_path, damage):
    built.write_bytes(damage(library(tmp_path, "int zeOld(void) { return 7; }")))

    with raises("lab.loader-not-usable", MachineError):
        level_zero.find()


def library(folder, source):
    """The content of a shared library."""
    target = folder / "library.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-xc", "-", "-o", target], input=source, text=True, check=True)
    return target.read_bytes()


def symbols_of(path):
    done = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True)
    return done.stdout


@needs_compiler
def test_the_driver_exports_only_the_functions_for_tables(tmp_path):
    library = compile_program(parts.DRIVER, tmp_path)
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in symbols.splitlines()]

    assert all(name.startswith("ze") and name.endswith("ProcAddrTable") for name in names)
    assert len(names) == 73


@needs_compiler
@no_npu
def test_the_driver_is_uninitialized_without_an_npu(driver):
    entries = (ctypes.c_void_p * 1)()
    driver.zeGetGlobalProcAddrTable(0x10000, entries)

    assert ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)(entries[0])(0) == UNINITIALIZED


@needs_compiler
def test_programs_in_the_guest_find_loader_and_driver_and_keep_existing_variables(built, tmp_path):
    (tmp_path / "bin").mkdir()
    found = level_zero.install(tmp_path / "bin")

    assert found.loader.name == built.name
    assert [each.name for each in found.loader.parent.iterdir()] == [built.name]
    assert [each.name for each in found.driver.parent.iterdir()] == ["libze_lab_npu.so"]
    folder = f"{found.loader.parent}:{found.driver.parent}"
    assert (tmp_path / "bin" / "ze_load").resolve() == found.program
    assert found.environment({}) == {"LD_LIBRARY_PATH": folder, "ZE_ENABLE_ALT_DRIVERS": str(found.driver)}
    kept = found.environment({"LD_LIBRARY_PATH": "/one", "ZE_ENABLE_ALT_DRIVERS": "/mine.so"})
    assert kept == {"LD_LIBRARY_PATH": f"{folder}:/one", "ZE_ENABLE_ALT_DRIVERS": "/mine.so"}


def test_ze_load_in_a_lab_without_level_zero_prints_how_to_build_it(cache, tmp_path):
    found = lab_settings.install(tmp_path / "bin")
    assert found is None

    done = subprocess.run([tmp_path / "bin" / "ze_load", "--jobs", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "fix: python -m accel_magic lab build, then restart the lab" in done.stderr
    assert (tmp_path / "bin" / "npu_load").exists()
    assert not list(store.cache().glob("programs/*ze_*"))
    assert not {"LD_LIBRARY_PATH", parts.DRIVERS} & set(environment(Settings(), tmp_path, found, {}))


@needs_compiler
@no_npu
def test_ze_load_uses_this_machines_loader_outside_the_lab_and_the_labs_inside(cache, no_lab, built, monkeypatch):
    with raises("npu.not-found", MachineError) as error:
        npu.ze_load(1)
    assert "lab build;" in error.value.fix

    monkeypatch.setenv("ACCEL_MAGIC_LAB", "7.2")
    with raises("npu.not-found", MachineError, match="has no zeFence"):  # this loader is an empty library
        npu.ze_load(1)


@needs_compiler
@pytest.mark.parametrize(
    "wrong",
    [{"jobs": 0}, {"in_flight": 0}, {"wait": "never"}, {"memory": "gpu"}, {"fault": "hang"}, {"fault": "x", "at": 1}],
)
def test_invalid_options_are_rejected(cache, no_lab, wrong):
    with raises("load.bad-option", ProbeError):
        npu.ze_load(**wrong)


def test_the_output_of_a_load_is_parsed_and_shown():
    values = {
        "device": "NPU lab",
        "threads": 2,
        "in_flight": 3,
        "wait": "query",
        "size": 4096,
        "memory": "host",
        "fresh": True,
        "rate": 0.0,
        "timeout": 10.0,
        "fault": "slow",
        "fault_argument": 5,
        "every": 2,
        "at": 0,
        "faulty": 2,
        "jobs": 4,
        "ok": 3,
        "failed": 0,
        "timed_out": 1,
        "most_in_flight": 4,
        "duration_ns": 1_500_000,
        "latency_ns": {"mean": 2000, "p50": 1000, "max": 4000},
        "calls": {"zeInit": {"SUCCESS": 1}, "zeFenceQueryStatus": {"SUCCESS": 3, "NOT_READY": 40}},
    }

    load = level_zero_load.ZeLoad.from_json(json.dumps(values))

    assert load.functions.to_dict() == {"zeInit": 1, "zeFenceQueryStatus": 43}
    assert load.results.loc["zeFenceQueryStatus"].to_dict() == {"SUCCESS": 3, "NOT_READY": 40}
    assert load.results.loc["zeInit", "NOT_READY"] == 0
    shown = repr(load)
    assert "4 jobs on NPU lab in 0.002 s, 2 threads, at most 4 in flight" in shown
    assert "slow requested 2 times" in shown
    assert "zeFenceQueryStatus                   SUCCESS 3  NOT_READY 40" in shown
    assert "<td>SUCCESS 3  NOT_READY 40</td>" in load._repr_html_()
