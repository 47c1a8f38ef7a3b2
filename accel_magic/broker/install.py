"""Install the broker as a service of systemd: its files, and the commands that create its user and start it."""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import secrets
import stat
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accel_magic.broker import broker_policy, service
from accel_magic.errors import MachineError
from accel_magic.kernel.bcc.bcc_location import find_bcc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

NAME: Final = "accel-magic"
"""The group whose members may connect, and the user that the service runs as."""
SOCKET_UNIT: Final = "accel-magic-broker.socket"
SERVICE_UNIT: Final = "accel-magic-broker.service"
_UNITS: Final = Path("/etc/systemd/system")
_BOOTED: Final = Path("/run/systemd/system")
"""Exists if systemd runs this machine."""
_HOMES: Final = tuple(Path(path) for path in ("/home", "/root", "/run/user"))
_COMMAND_S: Final = 120.0

_SOCKET: Final = """\
# Written by `accel-magic broker install`.
[Unit]
Description=Socket of the accel_magic broker

[Socket]
ListenStream={socket}
SocketGroup={name}
SocketMode=0660
DirectoryMode=0755
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"""

_SERVICE: Final = """\
# Written by `accel-magic broker install`; for changes: systemctl edit {service}
[Unit]
Description=accel_magic broker: tracing for users without privilege
Requires={socket_unit}
After={socket_unit}

[Service]
Type=exec
# env, because at the start itself the service's user may not enter folders of root's that the interpreter may be in.
ExecStart=:/usr/bin/env {command}
User={name}
Group={name}
# Running traces go on while the service is updated, and when one of them exceeds the memory.
KillMode=process
OOMPolicy=continue

CapabilityBoundingSet=CAP_BPF CAP_PERFMON CAP_DAC_READ_SEARCH
AmbientCapabilities=CAP_BPF CAP_PERFMON CAP_DAC_READ_SEARCH
NoNewPrivileges=yes
SystemCallArchitectures=native
SystemCallFilter=@default @basic-io @file-system @io-event @network-io @process @signal @sync @timer
SystemCallFilter=bpf perf_event_open capset seccomp
SystemCallFilter=landlock_create_ruleset landlock_add_rule landlock_restrict_self
SystemCallFilter=fadvise64 flock ioctl madvise memfd_create mremap pipe pipe2 setsid sysinfo umask uname
SystemCallFilter=~mknod mknodat setns unshare
SystemCallErrorNumber=EPERM

ProtectSystem=strict
ProtectHome={homes}
PrivateMounts=yes
PrivateTmp=yes
PrivateDevices=yes
DevicePolicy=closed
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
PrivateNetwork=yes
RestrictAddressFamilies=AF_UNIX
IPAddressDeny=any
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
KeyringMode=private
RemoveIPC=yes
UMask=0077
MemoryMax=50%
TasksMax=2048
LimitNOFILE=65536
LimitCORE=0
"""

_SYSCTL: Final = Path("/etc/sysctl.d/60-accel-magic-broker.conf")
_PARANOID: Final = Path("/proc/sys/kernel/perf_event_paranoid")
_MOST_PARANOID: Final = 2
"""The kernel's own default. Debian's is 3, which only CAP_SYS_ADMIN overrides."""
_SETTING: Final = """\
# Written by `accel-magic broker install`. Above 2, as Debian sets it, CAP_PERFMON does not suffice for tracing.
kernel.perf_event_paranoid = 2
"""

_POLICY_HEAD: Final = """\
# What users may trace through the accel_magic broker. These are the defaults; remove the # before a section's name and
# before a line to change it. Then run: accel-magic broker check && systemctl restart accel-magic-broker.service
"""

_INSPECTION: Final = """\
import json, os, sys, numpy, accel_magic
with open("/proc/self/maps") as maps:
    loaded = {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}
print(json.dumps([sys.executable, sys.prefix + "/pyvenv.cfg", *sys.path, *filter(os.path.isfile, sorted(loaded))]))
"""
"""Prints what Python loads code from: libraries, folders of modules, and the file that names them in an environment."""


@dataclass(frozen=True)
class File:
    """A file of the installation.

    Attributes:
        path: Its path.
        content: Its text.

    """

    path: Path
    content: str


@dataclass(frozen=True)
class Work:
    """What an installation or its removal does, in this order.

    Attributes:
        before: Commands.
        written: Files to write, all with mode 0644.
        removed: Files to remove.
        after: Commands.
        notes: For the administrator.

    """

    before: tuple[tuple[str, ...], ...] = ()
    written: tuple[File, ...] = ()
    removed: tuple[Path, ...] = ()
    after: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    def shown(self) -> list[str]:
        """Lines that describe it."""
        lines = [f"would run: {' '.join(command)}" for command in self.before]
        for file in self.written:
            lines += [
                "",
                f"would write {file.path} (mode 0644):",
                *(f"    {line}" for line in file.content.splitlines()),
            ]
        lines += [f"would remove {path}" for path in self.removed]
        return [*lines, "", *(f"would run: {' '.join(command)}" for command in self.after), *self.notes]


def _in(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _service(code: Iterable[Path]) -> str:
    places = [place for path in code for place in (path, Path(os.path.realpath(path)))]
    in_home = any(place.is_relative_to(home) for place in places for home in _HOMES)
    return _SERVICE.format(
        name=NAME,
        service=SERVICE_UNIT,
        socket_unit=SOCKET_UNIT,
        command=" ".join(map(_quoted, [sys.executable, "-I", "-m", "accel_magic", "broker", "run"])),
        homes="read-only" if in_home else "yes",
    )


def _quoted(word: str) -> str:
    """Quote a word of a command line in a unit."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return escaped if escaped == word and not {*word} & {*" \t';"} else f'"{escaped}"'


def as_toml(values: dict[str, Any]) -> list[str]:
    """Lines of a policy as TOML.

    Args:
        values: Sections, as `dataclasses.asdict` returns them.

    """
    lines = []
    for part, settings in values.items():
        lines.append(f"[{part}]")
        for name, value in settings.items():
            text = "[" + ", ".join(f'"{each}"' for each in value) + "]" if isinstance(value, list | tuple) else value
            lines.append(f"{name} = {text}")
    return lines


def _default_policy() -> str:
    return _POLICY_HEAD + "".join(f"#{line}\n" for line in as_toml(asdict(broker_policy.BrokerPolicy())))


def installation(code: Iterable[Path], root: Path = Path("/")) -> Work:
    """Return what `install` does.

    Args:
        code: What `code_paths` returned.
        root: Folder that takes the place of `/` for files.

    """
    missing: list[tuple[str, ...]] = []
    if not _known(grp.getgrnam):
        missing.append(("groupadd", "--system", NAME))
    if not _known(pwd.getpwnam):
        account = ("--system", "--gid", NAME, "--no-create-home", "--home-dir", "/", "--shell", "/usr/sbin/nologin")
        missing.append(("useradd", *account, NAME))
    units, rules = _in(root, _UNITS), _in(root, broker_policy.FILE)
    kept = os.path.lexists(rules)
    written = [] if kept else [File(rules, _default_policy())]
    setting = _in(root, _SYSCTL)
    too_paranoid = _paranoid(root) > _MOST_PARANOID
    if too_paranoid:
        written.append(File(setting, _SETTING))
    return Work(
        before=tuple(missing),
        written=(
            *written,
            File(units / SOCKET_UNIT, _SOCKET.format(socket=service.SOCKET, name=NAME)),
            File(units / SERVICE_UNIT, _service(code)),
        ),
        after=(
            *([("sysctl", "--load", str(setting))] if too_paranoid else []),
            ("systemctl", "daemon-reload"),
            ("systemctl", "enable", "--now", SOCKET_UNIT),
            ("systemctl", "try-restart", SERVICE_UNIT),
        ),
        notes=(
            *((f"{rules} stays as it is",) if kept else ()),
            f"to admit a user: usermod --append --groups {NAME} USER",
        ),
    )


def _paranoid(root: Path) -> int:
    """What unprivileged processes may not do with perf events, as a level; -1 if the kernel has no such setting."""
    try:
        return int(_in(root, _PARANOID).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return -1


def _known(find: Callable[[str], object]) -> bool:
    try:
        find(NAME)
    except KeyError:
        return False
    return True


def removal(root: Path = Path("/")) -> Work:
    """Return what `uninstall` does; argument as for `installation`."""
    stops = {
        SOCKET_UNIT: ("systemctl", "disable", "--now", SOCKET_UNIT),
        SERVICE_UNIT: ("systemctl", "stop", SERVICE_UNIT),
    }
    there = [unit for unit in stops if os.path.lexists(_in(root, _UNITS) / unit)]
    if not there:
        return Work(notes=("the broker is not installed",))
    setting = [_in(root, _SYSCTL)] if os.path.lexists(_in(root, _SYSCTL)) else []
    return Work(
        before=tuple(stops[unit] for unit in there),
        removed=(*(_in(root, _UNITS) / unit for unit in there), *setting),
        after=(("systemctl", "daemon-reload"),),
        notes=(
            f"kept: {_in(root, broker_policy.FILE)}, and the user and group {NAME}",
            "traces that run now go on until they are ended",
            *(("kernel.perf_event_paranoid stays 2 until the next boot",) if setting else ()),
        ),
    )


def do(work: Work, run: Callable[[Sequence[str]], None] | None = None) -> None:
    """Install or remove.

    Args:
        work: What to do.
        run: Runs a command; None: in a process.

    Raises:
        MachineError: A file cannot be written or removed safely, or a command failed.

    """
    run = run or _run
    for path in (*(file.path for file in work.written), *work.removed):
        _require_plain(path)
    for command in work.before:
        run(command)
    for file in work.written:
        _write(file)
    for path in work.removed:
        path.unlink()
    for command in work.after:
        run(command)


def require_possible() -> None:
    """Raise MachineError if this machine is not run by systemd, or this process does not belong to root."""
    if not _BOOTED.is_dir():
        raise MachineError(
            "the broker cannot be installed as a service",
            why="systemd does not run on this machine",
            fix=f"start it as root by other means, e.g. in a container: accel-magic broker run --group {NAME}",
            code="broker.no-systemd",
        )
    if os.geteuid():
        raise MachineError(
            "only root can install or remove the broker",
            fix="sudo accel-magic broker install (--dry-run shows what it does)",
            code="broker.not-root",
        )


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_COMMAND_S, check=False
        )
        why = done.stderr.strip() or f"exit status {done.returncode}" if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    if why:
        raise MachineError(
            f"{' '.join(command)} failed",
            why=why,
            fix="correct the cause and run this command again",
            code="broker.command-failed",
        )


# ---- files


def _require_plain(path: Path) -> None:
    """Check that a path can be written: no links, and folders that only root, or this user, can write to."""
    for place in (*reversed(path.parents), path):
        try:
            status = place.lstat()
        except FileNotFoundError:
            return
        if stat.S_ISLNK(status.st_mode):
            raise _bad_place(path, f"{place} is a link", f"remove it: rm {place}")
        if not (stat.S_ISREG if place == path else stat.S_ISDIR)(status.st_mode):
            raise _bad_place(path, f"{place} is not a {'file' if place == path else 'folder'}", f"move {place} away")
        sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX and place != path.parent
        if status.st_uid not in (0, os.geteuid()) or (status.st_mode & 0o022 and not sticky):
            raise _bad_place(path, f"others than root can change {place}", _protection(place))


def _bad_place(path: Path, why: str, fix: str) -> MachineError:
    return MachineError(f"{path} cannot be written safely", why=why, fix=fix, code="broker.bad-place")


def _write(file: File) -> None:
    """Write a file with mode 0644, as a whole."""
    temporary = file.path.with_name(f".{file.path.name}.{secrets.token_hex(6)}.tmp")
    try:
        for folder in reversed(file.path.parents):
            if not folder.exists():
                folder.mkdir()
                folder.chmod(0o755)
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(file.content)
            os.fchmod(descriptor, 0o644)
            out.flush()
            os.fsync(descriptor)
        temporary.replace(file.path)
    except OSError as error:
        raise _bad_place(file.path, str(error.strerror), "make it writable for root") from None
    finally:
        temporary.unlink(missing_ok=True)


# ---- code that the service runs


@dataclass(frozen=True)
class Unsafe:
    """A place that others than root can change, and why."""

    path: Path
    why: str

    def error(self) -> MachineError:
        """Why the broker cannot be installed."""
        return MachineError(
            "the broker would run code that others than root can change",
            why=f"{self.path} {self.why}",
            fix=f"{_protection(self.path)}; or install accel_magic for root: python3 -m venv /opt/accel_magic && "
            "/opt/accel_magic/bin/pip install accel-magic",
            code="broker.writable-code",
        )


def _protection(path: Path) -> str:
    return f"chown -h root:root {path} && chmod go-w {path}"


def code_paths() -> list[Path]:
    """Return the files and folders with code that the service runs: interpreters, libraries, the import path.

    Raises:
        MachineError: The service's Python cannot import accel_magic.

    """
    command = [sys.executable, "-I", "-c", _INSPECTION]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode:
        raise MachineError(
            "the broker's Python cannot import accel_magic",
            why=f"{' '.join(command[:2])}: {(done.stderr.strip().splitlines() or [''])[-1]}",
            fix="install accel_magic in a virtual environment, not for one user or by PYTHONPATH",
            code="broker.not-importable",
        )
    found = [Path(path) for path in json.loads(done.stdout)]
    with contextlib.suppress(MachineError):  # BCC can be installed later, by the distribution
        found += [find_bcc().interpreter, find_bcc().package]
    return [*found, Path(__file__).parents[1]]


def unsafe(paths: Iterable[Path], owner: int = 0) -> Iterator[Unsafe]:
    """Yield what others than root can change: on the way to paths, the paths, everything below them, and links there.

    Args:
        paths: Files and folders, which may be missing.
        owner: A user who is trusted besides root.

    """
    waiting, seen, entered = [*paths], set[Path](), set[Path]()
    while waiting:
        path = waiting.pop()
        for place in _way(path):
            if place not in seen and place not in entered:
                seen.add(place)
                yield from _wrong(place, owner, on_the_way=True)
        real = end = Path(os.path.realpath(path))
        while not os.path.lexists(end):  # others must not be able to create it
            end = end.parent
        if end in entered:
            continue
        entered.add(end)
        yield from _wrong(end, owner)
        if end == real and end.is_dir():
            with contextlib.suppress(PermissionError), os.scandir(end) as entries:
                for entry in entries:
                    if entry.is_symlink() or entry.is_dir():
                        waiting.append(Path(entry.path))
                    else:
                        yield from _wrong(Path(entry.path), owner)


def _way(path: Path) -> Iterator[Path]:
    """Yield every folder and link on the way to a path, as far as they exist."""
    place = Path("/")
    for part in path.absolute().parts[1:]:
        yield place
        place = place.parent if part == ".." else place / part
        if place.is_symlink():
            yield place
            if place.exists():  # not a circle
                yield from _way(place.parent / place.readlink())
            place = Path(os.path.realpath(place))
        if not os.path.lexists(place):
            return


def _wrong(place: Path, owner: int, *, on_the_way: bool = False) -> Iterator[Unsafe]:
    status = place.lstat()
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (0, owner):
        yield Unsafe(place, f"belongs to user {status.st_uid}")
    elif stat.S_ISLNK(status.st_mode) or (on_the_way and mode & stat.S_ISVTX):
        return  # in a sticky folder, others can neither remove nor rename what exists
    elif mode & stat.S_IWOTH or (mode & stat.S_IWGRP and (status.st_gid or _has_acl(place))):
        yield Unsafe(place, f"can be written by others (mode {mode:o}, group {status.st_gid})")


def _has_acl(place: Path) -> bool:
    try:
        os.getxattr(place, "system.posix_acl_access")
    except OSError:
        return False
    return True
