"""A file system of an ordinary user that stops answering: FUSE in a user namespace, with an overlay that hides it.

This file is also the program of that user, which speaks FUSE's protocol (include/uapi/linux/fuse.h) by itself.
"""

import contextlib
import ctypes
import errno
import os
import select
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = ("fuse", "overlay")
NAME = b"library.so"
_DEVICE = os.makedev(10, 229)
_ROOT, _FILE = 1, 2
_LARGEST = 1 << 17
_FORGET = (2, 36, 42)
_LOOKUP, _GETATTR, _OPEN, _READ, _STATFS, _RELEASE, _FLUSH, _INIT, _OPENDIR = 1, 3, 14, 15, 17, 18, 25, 26, 27
_HEAD, _REPLY = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")


class SlowFiles:
    """The running file system.

    Attributes:
        file: A descriptor of its only file, a copy of this process's C library.

    """

    def __init__(self, ours, file):
        self._ours, self.file = ours, file

    def close(self):
        """Close the descriptor here, or else each child process would wait for the file system when it does so."""
        os.close(self.file)

    def stop_answering(self):
        """From now on, whoever asks it anything waits."""
        self._ours.send(b"s")
        assert self._ours.recv(1) == b"s"

    def waiting(self):
        """Number of requests that wait for an answer."""
        self._ours.send(b"w")
        return self._ours.recv(1)[0]

    def answer(self):
        """Answer what waits, and everything from now on."""
        self._ours.send(b"a")
        assert self._ours.recv(1) == b"a"


@contextlib.contextmanager
def mounted(kind, uid, library):
    """A file system of a user with a copy of a library, mounted in a namespace of that user."""
    folder = Path(tempfile.mkdtemp(prefix="accel_magic-slow-", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "mounts").mkdir()
    os.chown(folder / "mounts", uid, uid)
    os.mknod(folder / "fuse", stat.S_IFCHR | 0o666, _DEVICE)  # /dev/fuse of other machines has this mode
    (folder / "fuse").chmod(0o666)
    shutil.copy(__file__, folder / "program.py")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    plain = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
    words = [shutil.which("python3", path="/usr/bin:/bin"), "-I", folder / "program.py", kind, library, folder]
    process = subprocess.Popen([*plain, "--", *words, str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd="/")
    theirs.close()
    ours.settimeout(60)
    try:
        said, files, _, _ = socket.recv_fds(ours, 100, 1)
        yield SlowFiles(ours, files[0]) if files else said.decode()
    finally:
        ours.close()  # it ends, and with it the file system
        process.wait(60)
        shutil.rmtree(folder)


def _mount(source, target, kind, data="", flags=0):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()):
        raise OSError(ctypes.get_errno(), f"{kind} cannot be mounted")


def _enter_namespaces():
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000 | 0x20000):  # users, mounts
        raise OSError(ctypes.get_errno(), "no namespace")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def _attributes(node, size):
    mode = stat.S_IFDIR | 0o755 if node == _ROOT else stat.S_IFREG | 0o755
    return struct.pack("<6Q10I", node, size, size // 512, 1, 1, 1, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def _answer(data, request):
    """The answer to a request of FUSE: an error number, and bytes."""
    _, operation, _, node, *_ = _HEAD.unpack(request[: _HEAD.size])
    body = request[_HEAD.size :]
    if operation == _INIT:
        return 0, struct.pack("<IIIIHHIIHHI6I", 7, 31, _LARGEST, 0, 12, 9, _LARGEST, 1, 32, *[0] * 8).ljust(64, b"\0")
    if operation == _LOOKUP and body.rstrip(b"\0") == NAME:
        return 0, struct.pack("<QQQQII", _FILE, 0, 0, 0, 0, 0) + _attributes(_FILE, len(data))
    if operation == _LOOKUP:
        return -errno.ENOENT, b""
    if operation == _READ:
        _, offset, size = struct.unpack("<QQI", body[:20])
        return 0, data[offset : offset + size]
    known = {
        _GETATTR: struct.pack("<QII", 0, 0, 0) + _attributes(node, len(data)),
        _OPEN: struct.pack("<QII", 1, 0, 0),
        _OPENDIR: struct.pack("<QII", 1, 0, 0),
        _STATFS: struct.pack("<5Q4I", 100, 50, 50, 10, 5, 4096, 255, 4096, 0) + bytes(24),
        _RELEASE: b"",
        _FLUSH: b"",
    }
    return (0, known[operation]) if operation in known else (-errno.ENOSYS, b"")


def _reply(device, data, request):
    unique = _HEAD.unpack(request[: _HEAD.size])[2]
    error, answer = _answer(data, request)
    with contextlib.suppress(FileNotFoundError):  # whoever asked was interrupted
        os.write(device, _REPLY.pack(_REPLY.size + len(answer), error, unique) + answer)


def _serve(device, data, control):
    silent, waiting = False, []
    poll = select.poll()
    poll.register(device, select.POLLIN)
    poll.register(control, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if control.fileno() in ready:
            command = control.recv(1)
            if not command:
                return
            silent = {b"s": True, b"a": False}.get(command, silent)
            control.send(bytes([len(waiting)]) if command == b"w" else command)
        if device in ready:
            request = os.read(device, 2 * _LARGEST)
            if _HEAD.unpack(request[: _HEAD.size])[1] not in _FORGET:
                waiting.append(request)
        while waiting and not silent:
            _reply(device, data, waiting.pop(0))


def _main(kind, library, folder, control):
    sock, mounts = socket.socket(fileno=int(control)), Path(folder) / "mounts"
    try:
        _enter_namespaces()
        _mount("none", str(mounts), "tmpfs")
        for name in ("fuse", "lower", "overlay"):
            (mounts / name).mkdir()
        device = os.open(f"{folder}/fuse", os.O_RDWR)
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
        _mount("fuse", f"{mounts}/fuse", "fuse", options)
    except OSError as error:
        sock.send(str(error).encode())
        return
    if os.fork() == 0:  # a program cannot wait for itself
        _serve(device, Path(library).read_bytes(), sock)
        os._exit(0)
    os.close(device)
    if kind == "overlay":
        _mount("overlay", f"{mounts}/overlay", "overlay", f"lowerdir={mounts}/fuse:{mounts}/lower")
    file = os.open(mounts / kind / NAME.decode(), os.O_RDONLY)
    socket.send_fds(sock, [b"f"], [file])
    os._exit(0)


if __name__ == "__main__":
    _main(*sys.argv[1:])
