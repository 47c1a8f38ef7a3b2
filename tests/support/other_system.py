"""Make this process lack what Python lacks on another system: modules, names in modules, and Linux's folders.

What others' packages import must be imported before: they have their own code for each system. Paths stay POSIX's.
"""

import contextlib
import ctypes
import ctypes.util
import importlib
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import time
from types import ModuleType, SimpleNamespace

_LINUX_OS = ("O_PATH", "O_DIRECT", "O_TMPFILE", "eventfd", "getxattr", "listxattr", "memfd_create", "pidfd_open")
_LINUX_OS += ("sched_getaffinity", "sched_setaffinity", "setns", "unshare", "setresuid", "setresgid", "prlimit")
_LINUX = {
    os: _LINUX_OS,
    signal: ("SIGRTMIN", "SIGRTMAX", "SIGPWR", "SIGPOLL", "SIGSTKFLT", "sigwaitinfo", "sigtimedwait"),
    socket: ("SO_PEERCRED", "SOCK_CLOEXEC", "SOCK_SEQPACKET", "AF_NETLINK", "AF_VSOCK"),
    mmap: ("MAP_POPULATE", "MAP_STACK"),
    select: ("epoll",),
    time: ("CLOCK_BOOTTIME", "CLOCK_TAI", "CLOCK_MONOTONIC_RAW"),
}
_POSIX_OS = (
    *("getuid", "geteuid", "getgid", "getegid", "getgroups", "setuid", "setgid", "setgroups", "setsid", "getpgid"),
    *(
        "fork",
        "forkpty",
        "register_at_fork",
        "killpg",
        "nice",
        "pread",
        "pwrite",
        "preadv",
        "pwritev",
        "readv",
        "writev",
    ),
    *("fchmod", "fchown", "chown", "lchown", "uname", "sysconf", "confstr", "getloadavg", "statvfs", "fstatvfs"),
    *("mkfifo", "mknod", "openpty", "pipe2", "sendfile", "sync", "tcgetpgrp", "wait", "wait3", "wait4", "waitid"),
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_SYNC", "O_DSYNC", "O_ACCMODE"),
    *("SEEK_DATA", "SEEK_HOLE", "WNOHANG", "WIFSTOPPED", "WSTOPSIG", "EX_USAGE", "fchdir", "chroot", "lockf"),
)
_POSIX = {
    os: _POSIX_OS,
    signal: (
        *("SIGALRM", "SIGBUS", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGPROF", "SIGQUIT", "SIGSTOP"),
        *("SIGTRAP", "SIGTSTP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGXCPU", "alarm", "pause", "pthread_kill"),
        *("pthread_sigmask", "setitimer", "getitimer", "siginterrupt", "sigpending", "sigwait", "SIG_BLOCK"),
    ),
    socket: ("AF_UNIX", "CMSG_LEN", "MSG_DONTWAIT", "MSG_NOSIGNAL", "SCM_RIGHTS", "send_fds", "recv_fds"),
    mmap: ("MAP_ANON", "MAP_ANONYMOUS", "MAP_PRIVATE", "MAP_SHARED", "PROT_EXEC", "PROT_READ", "PROT_WRITE"),
    select: ("poll", "POLLIN"),
    time: (
        "CLOCK_MONOTONIC",
        "CLOCK_REALTIME",
        "clock_gettime",
        "clock_gettime_ns",
        "clock_settime",
        "pthread_getcpuclockid",
    ),
}
_POSIX_MODULES = (
    "crypt",
    "fcntl",
    "grp",
    "nis",
    "ossaudiodev",
    "pty",
    "pwd",
    "resource",
    "spwd",
    "syslog",
    "termios",
    "tty",
)
_LINUX_MODULES = ("ossaudiodev", "spwd")
_FOLDERS = ("/proc", "/sys", "/boot")


def become(system: str) -> None:
    """Become `win32` or `darwin`, as `sys.platform` names them; there is no way back."""
    windows = system == "win32"
    subprocess.signal = SimpleNamespace(**vars(signal))  # it ends processes in its own way on each system
    for lacking in (_LINUX, _POSIX) if windows else (_LINUX,):
        for module, names in lacking.items():
            _remove(module, names)
    for name in _POSIX_MODULES if windows else _LINUX_MODULES:
        sys.modules[name] = None
    if windows:
        os.supports_dir_fd.clear()
        os.supports_effective_ids.clear()
        _without_libraries_of_this_process()
    else:
        _remove(importlib.import_module("resource"), ("prlimit",))
    _hide_folders()
    sys.platform = system


def _remove(module: ModuleType, names: tuple[str, ...]) -> None:
    for name in names:
        with contextlib.suppress(AttributeError):
            delattr(module, name)


def _without_libraries_of_this_process() -> None:
    opened = ctypes.CDLL.__init__

    def open_library(self: ctypes.CDLL, name: object, *arguments: object, **options: object) -> None:
        if name is None:
            raise TypeError("LoadLibrary() argument 1 must be str, not None")
        opened(self, name, *arguments, **options)

    ctypes.CDLL.__init__ = open_library


def _hide_folders() -> None:
    """Have Linux's folders look missing."""

    def check(path: object) -> None:
        text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
        if isinstance(text, str) and any(text == folder or text.startswith(f"{folder}/") for folder in _FOLDERS):
            raise FileNotFoundError(2, "No such file or directory", text)

    def audited(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir"):
            check(arguments[0])

    def checked(function):
        def call(path, *arguments, **options):
            check(path)
            return function(path, *arguments, **options)

        return call

    sys.addaudithook(audited)
    for name in ("stat", "lstat", "readlink"):
        setattr(os, name, checked(getattr(os, name)))
