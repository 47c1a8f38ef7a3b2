"""The cache folder: files that others could have written or that have changed are not used."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import pytest

from accel_magic import cache
from accel_magic.devices.mock_cuda import library_build
from accel_magic.errors import MachineError
from accel_magic.gpu.native import native_libraries
from accel_magic.gpu.program import clang
from accel_magic.lab import program_folder
from accel_magic.lab.vm import log_folders
from tests.support.errors import raises

SOMEBODY = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of files")
PROGRAM = "int f(void) { return 0; }\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The cache folder named by the environment; it does not exist yet."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(cache.OWNER, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def open_folder():
    """A folder that every user can enter, unlike pytest's."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def refused(path):
    with raises("cache.untrusted", MachineError) as caught:
        cache.require_trusted(path)
    return caught.value


def test_a_created_folder_is_private_whatever_the_umask(folder):
    before = os.umask(0)
    try:
        made = cache.own("gpu", "deeper")
    finally:
        os.umask(before)

    assert made == folder / "gpu" / "deeper"
    assert {path: path.stat().st_mode & 0o777 for path in (folder, folder / "gpu", made)} == dict.fromkeys(
        (folder, folder / "gpu", made), 0o700
    )


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o722, 0o1777])
def test_a_folder_that_others_can_write_to_is_rejected(folder, mode):
    folder.mkdir()
    folder.chmod(mode)

    why = refused(folder).why
    assert why.startswith(f"{folder} ")
    assert f"mode {mode:o}" in why
    with raises("cache.untrusted", MachineError):
        cache.own()


def test_a_parent_that_others_can_write_to_is_rejected_unless_it_is_sticky(folder):
    (folder / "inner").mkdir(parents=True)
    folder.chmod(0o777)
    assert refused(folder / "inner").why.startswith(f"{folder} ")
    assert refused(folder / "inner" / "missing").why.startswith(f"{folder} ")

    folder.chmod(0o1777)
    cache.require_trusted(folder / "inner")


@as_root
@pytest.mark.parametrize("what", ["folder", "parent", "file", "link"])
def test_anything_owned_by_another_user_is_rejected_unless_that_user_is_trusted(folder, what, monkeypatch):
    inner = folder / "inner"
    inner.mkdir(parents=True)
    file = inner / "file"
    file.write_text("")
    link = folder.parent / "link"
    link.symlink_to(folder)
    theirs = {"folder": inner, "parent": folder, "file": file, "link": link}[what]
    os.chown(theirs, SOMEBODY, SOMEBODY, follow_symlinks=False)
    path = (link if what == "link" else folder) / "inner" / "file"

    error = refused(path)

    assert f"{theirs} belongs to user {SOMEBODY}" in error.why
    assert f"{cache.OWNER}={SOMEBODY}" in error.fix
    monkeypatch.setenv(cache.OWNER, str(SOMEBODY))
    cache.require_trusted(path)


def test_links_are_followed_to_their_target(folder):
    real = folder.parent / "real"
    real.mkdir()
    (folder.parent / "one").symlink_to("./two/../two")
    (folder.parent / "two").symlink_to(real.absolute())
    cache.require_trusted(folder.parent / "one")

    real.chmod(0o777)
    assert refused(folder.parent / "one").why.startswith(f"{real} ")

    (folder.parent / "circle").symlink_to("circle")
    refused(folder.parent / "circle")


@as_root
def test_group_write_permission_is_accepted_only_for_the_users_private_group(folder, monkeypatch):
    folder.mkdir()
    folder.chmod(0o770)
    cache.require_trusted(folder)  # root's own group

    os.chown(folder, 0, SOMEBODY)
    refused(folder)

    os.chown(folder, 0, 0)
    if shutil.which("setfacl"):
        subprocess.run(["setfacl", "-m", f"u:{SOMEBODY}:rwx", folder], check=True)
        refused(folder)


NAME = "native-0123"


@as_root
def test_planted_code_with_the_right_name_does_not_run(folder, tmp_path):
    """An attacker who knows the sources can compute the name and the checksum."""
    expected = native_libraries.cuda_library()
    shutil.rmtree(folder)
    theirs = folder / "gpu"
    theirs.mkdir(parents=True)
    (tmp_path / "planted").write_text("not the library")
    planted = cache.keep(tmp_path / "planted", theirs, expected.name.rsplit("-", 1)[0], ".so")
    for path in (planted, theirs, folder):
        os.chown(path, SOMEBODY, SOMEBODY)

    with raises("cache.untrusted", MachineError):
        native_libraries.cuda_library()

    assert planted.name[:20] == expected.name[:20]


@as_root
@pytest.mark.parametrize(
    "build",
    [
        native_libraries.cuda_library,
        library_build.library,
        lambda: clang.compile_program(PROGRAM),
        lambda: cache.own("lab", "runs"),
    ],
)
def test_nothing_is_built_in_another_users_folder(folder, build):
    folder.mkdir()
    os.chown(folder, SOMEBODY, SOMEBODY)

    with raises("cache.untrusted", MachineError):
        build()

    assert list(folder.rglob("*.*")) == []


@pytest.mark.parametrize(
    "build",
    [
        native_libraries.cuda_library,
        pytest.param(library_build.library, marks=pytest.mark.thorough),
        program_folder.folder,
    ],
)
def test_a_damaged_file_is_built_again(folder, build):
    if build is program_folder.folder:
        build = lambda: program_folder.compile_load(program_folder.folder())  # noqa: E731
    first = build()
    content = first.read_bytes()
    first.write_bytes(content[:-1] + b"?")

    second = build()

    assert second.read_bytes() == content
    assert second == build()


def test_a_damaged_compiled_program_is_compiled_again(folder):
    first = clang.compile_program(PROGRAM)
    (kept,) = (folder / "gpu").glob("*.o")
    kept.write_bytes(b"other code")

    assert clang.compile_program(PROGRAM) == first


def test_a_checksum_is_computed_once_until_the_file_changes(tmp_path, monkeypatch):
    reads = []
    digest = cache.hashlib.file_digest
    monkeypatch.setattr(cache.hashlib, "file_digest", lambda file, name: reads.append(1) or digest(file, name))
    file = tmp_path / "file"
    file.write_text("one")
    first = cache.sha256_of(file)

    assert cache.sha256_of(file) == first
    assert len(reads) == 1
    file.write_text("other")
    assert cache.sha256_of(file) != first
    expected = subprocess.run(["sha256sum"], input="one", capture_output=True, text=True, check=True).stdout
    assert first == expected.split()[0]


def as_user(function):
    """Call a function in a child process as another user; returns its result, passed as JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setresgid(SOMEBODY, SOMEBODY, SOMEBODY)
            os.setresuid(SOMEBODY, SOMEBODY, SOMEBODY)
            os.write(writing, json.dumps(function()).encode())
        except BaseException:  # noqa: BLE001 - the parent notices the missing answer
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text)


@as_root
def test_with_a_read_only_share_new_files_go_to_the_users_own_cache(open_folder, monkeypatch):
    share, home = open_folder / "share", open_folder / "home"
    (share / "lab").mkdir(parents=True)
    home.mkdir()
    os.chown(home, SOMEBODY, SOMEBODY)
    monkeypatch.setenv(cache.VARIABLE, str(share))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))

    logs, gpu = as_user(lambda: [str(log_folders.new_folder()), str(cache.own("gpu"))])

    assert Path(logs).parent == home / "accel_magic" / "lab" / "runs"
    assert Path(gpu) == home / "accel_magic" / "gpu"
    assert list(share.rglob("*")) == [share / "lab"]


@as_root
def test_with_an_unsafe_or_read_only_user_cache_new_files_are_temporary(open_folder, monkeypatch):
    monkeypatch.delenv(cache.VARIABLE, raising=False)
    home = open_folder / "home"
    home.mkdir()
    for mode, owner in ((0o777, SOMEBODY), (0o755, 0)):
        home.chmod(mode)
        os.chown(home, owner, owner)
        monkeypatch.setenv("XDG_CACHE_HOME", str(home))

        path, kept = as_user(lambda: [str(cache.own("gpu")), cache.own("gpu").stat().st_mode & 0o777])

        assert not path.startswith(str(home))
        assert list(home.iterdir()) == []
        assert kept == 0o700
        shutil.rmtree(Path(path).parent)


def test_temporary_cache_folders_are_removed_with_their_process(tmp_path):
    script = "import tempfile; from accel_magic import cache; print(cache.own('gpu'))"
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "open"), "TMPDIR": str(tmp_path)}
    environment.pop(cache.VARIABLE, None)

    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)

    made = Path(done.stdout.strip())
    assert made.parent.parent == tmp_path
    assert not made.parent.exists()


def test_a_file_in_place_of_the_cache_folder_is_an_error(folder):
    folder.write_text("")
    with raises("cache.not-writable", MachineError):
        cache.own("gpu")


def made(folder, text="content"):
    path = folder / "made"
    path.write_text(text)
    return path


def test_a_file_that_another_process_has_stored_first_stays(tmp_path, folder):
    """A probe that is attached to it, and a process that has loaded it, keep the same file."""
    place = cache.make(folder)
    first = cache.keep(made(tmp_path), place, "library", ".so")
    inode = first.stat().st_ino
    second = cache.keep(made(tmp_path), place, "library", ".so")

    assert second == first == cache.find(place, "library", ".so")
    assert second.stat().st_ino == inode
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("change", ["damaged", "writable by others", "a link"])
def test_a_stored_file_that_cannot_be_used_is_replaced(tmp_path, folder, change):
    place = cache.make(folder)
    stored = cache.keep(made(tmp_path), place, "library", ".so")
    if change == "damaged":
        stored.write_text("damaged")
    elif change == "writable by others":
        stored.chmod(0o666)
    else:
        stored.rename(tmp_path / "elsewhere")
        stored.symlink_to(tmp_path / "elsewhere")

    assert cache.keep(made(tmp_path), place, "library", ".so") == cache.find(place, "library", ".so")
    assert stored.read_text() == "content"
    assert stored.stat().st_mode & 0o022 == 0
    assert not stored.is_symlink()
