"""What a confined process can still do."""

import json
import os
import subprocess
import sys

import pytest

from accel_magic.kernel.bcc import sandbox

CONFINED = """
import ctypes, importlib.util, json, os, socket, sys
module, folder, landlock = sys.argv[1], sys.argv[2], sys.argv[3] == "landlock"
forks, maps, computes = json.loads(sys.argv[4])
spec = importlib.util.spec_from_file_location("sandbox", module)
sandbox = importlib.util.module_from_spec(spec)
sys.modules["sandbox"] = sandbox
spec.loader.exec_module(sandbox)
libc = ctypes.CDLL(None, use_errno=True)
os.chdir(folder)
kept = os.open("inside/kept", os.O_RDONLY)
if not maps:
    sandbox.drop_capabilities()
    if landlock:
        sandbox.restrict_files([folder + "/inside", os.path.dirname(os.__file__)])
sandbox.restrict_calls(sandbox.Needs(forks=forks, maps=maps, computes=computes))

# Harmful calls have invalid arguments, so that the kernel would reject them if the filter let them through.
at, buffer = -100, ctypes.create_string_buffer(4096)
inside, outside, new = b"inside/kept", b"outside", b"new"
calls = {
    "open to write": (2, inside, 1),
    "open to read and write": (2, inside, 2),
    "open with an odd mode": (2, inside, 3),
    "open and make": (2, new, 0o100),
    "open and truncate": (2, inside, 0o1000),
    "open to append": (2, inside, 0o2001),
    "openat to write": (257, at, inside, 1),
    "openat and make": (257, at, new, 0o101, 0o600),
    "openat without a name": (257, at, b"inside", 0o20200002, 0o600),
    "openat2": (437, at, inside, ctypes.create_string_buffer(bytes([1]) + bytes(23)), 24),
    "open by handle": (304, at, buffer, 2),
    "creat": (85, new, 0o600),
    "truncate": (76, inside, 0),
    "rename": (82, inside, new),
    "renameat": (264, at, inside, at, new),
    "renameat2": (316, at, inside, at, new, 0),
    "mkdir": (83, new, 0o700),
    "mkdirat": (258, at, new, 0o700),
    "rmdir": (84, b"empty"),
    "link": (86, inside, new),
    "linkat": (265, at, inside, at, new, 0),
    "unlink": (87, inside),
    "unlinkat": (263, at, inside, 0),
    "symlink": (88, inside, new),
    "symlinkat": (266, inside, at, new),
    "mknod": (133, new, 0o010600, 0),
    "mknodat": (259, at, new, 0o010600, 0),
    "chmod": (90, inside, 0o777),
    "fchmod": (91, kept, 0o777),
    "fchmodat": (268, at, inside, 0o777),
    "fchmodat2": (452, at, inside, 0o777, 0),
    "chown": (92, inside, 1, 1),
    "fchown": (93, kept, 1, 1),
    "lchown": (94, inside, 1, 1),
    "fchownat": (260, at, inside, 1, 1, 0),
    "utimensat": (280, at, inside, 0, 0),
    "utimes": (235, inside, 0),
    "setxattr": (188, inside, b"user.a", b"b", 1, 0),
    "fsetxattr": (190, kept, b"user.a", b"b", 1, 0),
    "mount": (165, 1, 1, 1, 0, 1),
    "move_mount": (429, at, b"", at, b"", 0),
    "open_tree": (428, at, b"", 0),
    "fsopen": (430, b"tmpfs", 0),
    "chroot": (161, 1),
    "pivot_root": (155, 1, 1),
    "splice": (275, kept, 0, kept, 0, 1, 0),
    "sendfile": (40, 1, kept, 0, 1),
    "copy_file_range": (326, kept, 0, 1, 0, 1, 0),
    "socket": (41, 2, 1, 0),
    "unix socket": (41, 1, 1, 0),
    "netlink socket": (41, 16, 3, 0),
    "socketpair": (53, 1, 1, 0, buffer),
    "connect": (42, 0, buffer, 16),
    "bind": (49, 0, buffer, 16),
    "listen": (50, 0, 1),
    "accept": (43, 0, 0, 0),
    "execve": (59, b"/bin/true", 0, 0),
    "execveat": (322, at, b"/bin/true", 0, 0, 0),
    "vfork": (58,),
    "clone of a thread": (56, 0x10f00, 0, 0, 0, 0),
    "clone into new namespaces": (56, 0x10000000 | 17, 0, 0, 0, 0),
    "clone3": (435, buffer, 88),
    "unshare": (272, 0x10000000),
    "setns": (308, kept, 0),
    "ptrace": (101, 16, os.getppid(), 0, 0),
    "process_vm_readv": (310, os.getppid(), buffer, 1, buffer, 1, 0),
    "process_vm_writev": (311, os.getppid(), buffer, 1, buffer, 1, 0),
    "kill": (62, os.getppid(), 0),
    "tkill": (200, os.getppid(), 0),
    "pidfd_open": (434, os.getppid(), 0),
    "pidfd_send_signal": (424, kept, 0, 0, 0),
    "rt_sigqueueinfo": (129, os.getppid(), 0, buffer),
    "perf_event_open": (298, buffer, 0, -1, -1, 0),
    "io_uring_setup": (425, 1, buffer),
    "io_submit": (209, 0, 0, 0),
    "userfaultfd": (323, 1),
    "memfd_create": (319, b"a", 0),
    "keyctl": (250, 0, 0),
    "add_key": (248, b"user", b"a", b"b", 1, -1),
    "setuid": (105, 0),
    "setresuid": (117, 1, 1, 1),
    "personality": (135, 0x0040000),
    "modify_ldt": (154, 0, buffer, 16),
    "init_module": (175, buffer, 1, b""),
    "finit_module": (313, kept, b"", 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "reboot": (169, 0, 0, 0, 0),
    "sethostname": (170, 1, 1),
    "settimeofday": (164, 1, 0),
    "inotify_init": (253,),
    "fanotify_init": (300, 0, 0),
    "mq_open": (240, b"/a", 0o102, 0o600, 0),
    "shmget": (29, 0, 4096, 0o1600),
    "quotactl": (179, 0, 0, 0, 0),
    "terminal input": (16, 0, 0x5412, b"a"),
    "fcntl lease": (72, kept, 1024, 0),
    "x32 open": (0x40000002, inside, 1),
    "x32 socket": (0x40000029, 2, 1, 0),
}
if computes:
    del calls["clone of a thread"]
if not maps:
    calls["bpf"] = (321, 0, buffer, 128)
    calls["sending descriptors"] = (46, 0, buffer, 0)
if not maps and not computes:
    calls["executable memory"] = (9, 0, 4096, 7, 0x22, -1, 0)
    calls["memory made executable"] = (10, ctypes.c_void_p(ctypes.addressof(buffer) & ~4095), 4096, 5)
if not forks:
    calls["fork"] = (57,)
    calls["a signal to the parent"] = (234, os.getppid(), os.getppid(), 0)
    calls["another filter"] = (317, 1, 0, buffer)
    calls["prctl"] = (157, 4, 1, 0, 0, 0)
if not forks and not maps:
    calls["limits"] = (302, 0, 0, buffer, 0)
calls["limits of others"] = (302, os.getppid(), 0, buffer, 0)
done = {}
for name, (number, *arguments) in calls.items():
    result = libc.syscall(ctypes.c_long(number), *[
        ctypes.c_long(one) if isinstance(one, int) else one for one in arguments
    ])
    if result == 0 and number in (56, 57, 58):
        os._exit(0)
    done[name] = ctypes.get_errno() if result < 0 else 0

def readable(path):
    try:
        with open(path) as file:
            return file.read(1) is not None
    except OSError:
        return False

done["readable"] = [path for path in ("inside/kept", "outside", "/etc/passwd", "/proc/self/maps") if readable(path)]
print(json.dumps(done))
"""
REFUSED = {1, 13, 38}  # EPERM, EACCES, ENOSYS: the filter's errors; any other error is from the kernel


def confined(folder, *, landlock=True, forks=False, maps=False, computes=False):
    (folder / "inside").mkdir()
    (folder / "empty").mkdir()
    (folder / "inside" / "kept").write_text("kept")
    (folder / "outside").write_text("outside")
    arguments = [sandbox.__file__, folder, "landlock" if landlock else "", json.dumps([forks, maps, computes])]
    done = subprocess.run(
        [sys.executable, "-I", "-c", CONFINED, *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.parametrize("landlock", [True, False])
@pytest.mark.parametrize("needs", [(), ("forks",), ("maps",), ("forks", "maps"), ("computes",)])
def test_files_cannot_be_written_nor_programs_started_nor_sockets_created(tmp_path, landlock, needs):
    told = confined(tmp_path, landlock=landlock, **dict.fromkeys(needs, True))

    told.pop("readable")
    assert {name: error for name, error in told.items() if error not in REFUSED} == {}
    assert {path.name: path.is_dir() for path in tmp_path.rglob("*")} == {
        "inside": True,
        "empty": True,
        "kept": False,
        "outside": False,
    }
    assert (tmp_path / "inside" / "kept").read_text() == "kept"
    assert (tmp_path / "inside" / "kept").stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(not sandbox.landlock_version(), reason="this kernel has no Landlock")
def test_only_the_given_folders_can_be_read(tmp_path):
    assert confined(tmp_path)["readable"] == ["inside/kept"]


def test_without_landlock_files_can_only_be_read(tmp_path):
    assert set(confined(tmp_path, landlock=False)["readable"]) == {
        "inside/kept",
        "outside",
        "/etc/passwd",
        "/proc/self/maps",
    }


def test_a_process_that_computes_can_start_threads_and_make_memory_executable():
    program = (
        "import importlib.util, mmap, sys, threading\n"
        f"spec = importlib.util.spec_from_file_location('sandbox', {sandbox.__file__!r})\n"
        "sandbox = sys.modules['sandbox'] = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(sandbox)\n"
        "sandbox.restrict_calls(sandbox.Needs(computes=True))\n"
        "memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
        "done = []\n"
        "threads = [threading.Thread(target=done.append, args=(number,)) for number in range(3)]\n"
        "[thread.start() for thread in threads], [thread.join() for thread in threads]\n"
        "print(len(memory), sorted(done))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "4096 [0, 1, 2]\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="it has capabilities only as root")
@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "kept"), [(0o755, 0o644, 0), (0o700, 0o644, 4), (0o755, 0o600, 4), (0o711, 0o644, 4)]
)
def test_root_keeps_only_the_capability_to_read_and_that_only_if_it_needs_it(tmp_path, folder_mode, file_mode, kept):
    """It reads a folder of another user."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "file").write_text("content")
    (folder / "broken").symlink_to("nowhere")
    for path, mode in ((folder / "file", file_mode), (folder, folder_mode)):
        path.chmod(mode)
        os.chown(path, 61001, 61001)
    program = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('sandbox', {sandbox.__file__!r})\n"
        "sandbox = sys.modules['sandbox'] = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(sandbox)\n"
        f"sandbox.drop_capabilities([{str(folder)!r}])\n"
        f"open({str(folder / 'file')!r}).read()\n"
        "print(open('/proc/self/status').read())"
    )
    status = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True).stdout
    sets = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Cap"))

    assert {name: int(sets[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {
        "CapInh": 0,
        "CapPrm": kept,
        "CapEff": kept,
        "CapAmb": 0,
    }


def test_32_bit_calls_end_the_process(tmp_path):
    """`int 0x80` uses different call numbers, which the filter does not check."""
    source, program = tmp_path / "a.c", tmp_path / "a"
    source.write_text('int call32(void) { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20)); return r; }\n')
    subprocess.run(["cc", "-shared", "-fPIC", "-o", program, source], check=True)
    code = (
        "import ctypes, importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('sandbox', {sandbox.__file__!r})\n"
        "sandbox = sys.modules['sandbox'] = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(sandbox)\n"
        f"library = ctypes.CDLL({str(program)!r})\n"
        "sandbox.restrict_calls(sandbox.Needs())\n"
        "print(library.call32())"
    )

    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (-31, b"")  # SIGSYS
