from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from accel_magic.errors import MachineError, ProbeError
from accel_magic.probes import libraries
from tests.support.errors import raises

ME = os.getpid()


def mapped_libc():
    with Path("/proc/self/maps").open() as maps:
        return next(Path(line.split()[-1]) for line in maps if "/libc.so.6" in line or "/libc-2" in line)


@pytest.mark.parametrize("name", ["c", "libc", "libc.so", "libc.so.6"])
def test_the_c_library_is_found_by_all_its_names(name):
    assert libraries.resolve(name, ME) == mapped_libc()
    assert libraries.resolve(name, None) == mapped_libc()


def test_a_mapped_copy_wins_over_the_loaders(compiled, tmp_path):
    folder = tmp_path / "bundle"
    folder.mkdir()
    bundled = compiled("int bundled(void) { return 1; }", "libz.so.1", "-shared", "-fPIC").rename(folder / "libz.so.1")
    handle = ctypes.CDLL(str(bundled))
    try:
        for name in ("z", "libz", "libz.so.1"):
            assert libraries.resolve(name, ME) == bundled
        assert libraries.resolve("libz", None) != bundled
    finally:
        ctypes.CDLL("").dlclose(ctypes.c_void_p(handle._handle))


@pytest.fixture
def mapped(monkeypatch):
    """A function that makes every process map these files."""

    def pretend(*paths):
        listed = [("1000-2000", str(path)) for path in paths]
        monkeypatch.setattr(libraries, "_mappings", lambda _pid: listed)

    return pretend


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("libwidget.so.2640", "libwidget"),
        ("libwidget.so.2640", "widget"),
        ("libwidget.so.2640", "libwidget.so"),
        ("libwidget.so.2640", "libwidget.so.2640"),
        ("libwidget.so.1.17.0", "libwidget.so.1"),
        ("libwidget-0cf96a72.3.23.so", "libwidget"),
        ("libwidget-2.31.so", "widget"),
        ("_widget.cpython-311-x86_64-linux-gnu.so", "_widget"),
    ],
)
def test_mapped_files_match_by_plain_versioned_and_hashed_names(mapped, file, name):
    paths = [Path("/opt/other/libwidgets.so"), Path("/opt/other/libwidget_c.so"), Path("/opt/it") / file]
    mapped(*paths)
    assert libraries.resolve(name, ME) == paths[-1]


def test_the_bundled_one_of_two_mapped_copies_wins(mapped):
    paths = [Path("/usr/lib/x86_64-linux-gnu/libwidget.so.6"), Path("/opt/wheel/libwidget.so.6")]
    mapped(*paths)
    assert libraries.resolve("libwidget", ME) == paths[1]


def test_the_loaders_search_order_is_followed(compiled, tmp_path, monkeypatch):
    folder = tmp_path / "first"
    folder.mkdir()
    library = compiled("int first(void) { return 1; }", "libz.so.1.9", "-shared", "-fPIC").rename(
        folder / "libz.so.1.9"
    )
    (folder / "libz.so.1").symlink_to(library)
    (folder / "libcurl.so.txt").mkdir()
    before = libraries.resolve("libz", None)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{folder}:")

    assert {libraries.resolve(name, None) for name in ("z", "libz", "libz.so.1")} == {library}
    assert before != library
    with raises("probe.no-library", ProbeError):
        libraries.resolve("libcurl.so.txt", None)


def test_programs_are_found_on_the_search_path():
    assert libraries.resolve("sh", None) == Path(shutil.which("sh")).resolve()


def test_the_running_python_wins_over_the_first_on_the_search_path(mapped):
    running = Path("/proc/self/exe").readlink()
    mapped("/opt/other/python3.9", running)
    assert libraries.resolve("python3", ME) == running


def test_paths_are_used_with_links_resolved(tmp_path):
    (tmp_path / "real.so").write_bytes(b"x")
    (tmp_path / "link.so").symlink_to("real.so")
    assert libraries.resolve(str(tmp_path / "link.so"), None) == (tmp_path / "real.so").resolve()


def test_libraries_of_another_process_are_found():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert libraries.resolve("libc", child.pid) == mapped_libc()
    finally:
        child.communicate(b"\n")


@pytest.mark.parametrize(
    ("name", "near", "code"),
    [
        ("libcc", "libc", "probe.no-library"),
        ("libstdc+", "libstdc++", "probe.no-library"),
        ("/usr/bin/pythn3", "python3", "probe.no-file"),
        ("/nosuch/lib.so", "", "probe.no-file"),
    ],
)
def test_unknown_names_suggest_similar_ones(name, near, code):
    with raises(code, ProbeError) as caught:
        libraries.resolve(name, ME)
    assert near in caught.value.fix


def test_a_folder_is_not_a_library(tmp_path):
    with raises("probe.not-a-file", ProbeError):
        libraries.resolve(str(tmp_path), None)


def test_a_missing_process_is_an_error():
    with raises("scope.no-process", ProbeError, match="no process 4194305"):
        libraries.resolve("libc", 4194305)


def test_another_users_process_is_a_permission_error(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with raises("scope.foreign-process", MachineError):
        libraries.resolve("libc", 1)


def test_a_path_through_a_processs_root_is_kept_and_its_links_are_followed_inside(tmp_path):
    (tmp_path / "real.so").write_bytes(b"x")
    (tmp_path / "link.so").symlink_to(tmp_path / "folder" / ".." / "real.so")
    (tmp_path / "folder").mkdir()
    root = f"/proc/{ME}/root"
    assert libraries.resolve(f"{root}{tmp_path}/link.so", None) == Path(f"{root}{tmp_path}/real.so")
    assert libraries.resolve(f"{root}/../..{tmp_path}/./folder/../real.so", None) == Path(f"{root}{tmp_path}/real.so")


def test_links_through_a_process_that_do_not_end_or_lead_nowhere_are_no_files(tmp_path):
    (tmp_path / "endless.so").symlink_to("endless.so")
    (tmp_path / "broken.so").symlink_to("missing.so")
    for name in ("endless.so", "broken.so", "missing.so"):
        with raises("probe.no-file", ProbeError):
            libraries.resolve(f"/proc/{ME}/root{tmp_path}/{name}", None)


def test_a_replaced_library_that_cannot_be_opened_any_more_is_an_error(compiled, monkeypatch):
    library = compiled("int f(void) { return 1; }", "libgone5.so", "-shared", "-fPIC")
    handle = ctypes.CDLL(str(library))
    library.unlink()
    monkeypatch.setattr(os, "access", lambda *_: False)
    try:
        with raises("probe.replaced-file", ProbeError, match="libgone5.so was deleted or replaced after process"):
            libraries.resolve("libgone5", ME)
    finally:
        ctypes.CDLL("").dlclose(ctypes.c_void_p(handle._handle))
