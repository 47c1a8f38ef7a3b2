"""What users may trace through the broker: `/etc/accel_magic/broker.toml`."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import tomllib
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_type_hints

from accel_magic.errors import MachineError, ProbeError
from accel_magic.probes import captures, presets
from accel_magic.probes.plan import KERNEL_KINDS, USER_KINDS

if TYPE_CHECKING:
    from accel_magic.broker.usage_table import Claim
    from accel_magic.probes.plan import Plan, ProbePoint
    from accel_magic.probes.presets import Preset

FILE: Final = Path("/etc/accel_magic/broker.toml")
_LARGEST: Final = 1 << 20
_ONLY_COUNTED: Final = (
    "hits of kernel threads and interrupts are counted, but not shown as events: these could describe other users"
)
_ASK: Final = f"ask the administrator, who decides it in {FILE}"


@dataclass(frozen=True)
class Users:
    """Who may use the broker.

    Attributes:
        names: Names of users, as globs.
        groups: Names of groups whose members may, as globs.

    """

    names: tuple[str, ...] = ("*",)
    groups: tuple[str, ...] = ()


def _for_users() -> tuple[Preset, ...]:
    """Presets that users may trace unless a policy names others, by name."""
    return tuple(preset for _, preset in sorted(presets.registered().items()) if preset.for_users)


def _of_presets(attribute: Literal["user_drivers", "user_tracepoints"]) -> tuple[str, ...]:
    return tuple(glob for preset in _for_users() for glob in getattr(preset, attribute))


@dataclass(frozen=True)
class Probes:
    """What may be traced, in the user's own processes and in what drivers do for all users.

    Attributes:
        kinds: `tracepoint`, `uprobe`, `uretprobe`, `usdt`, `profile`, `offcpu`, `kprobe`, `kretprobe`.
        tracepoints: Tracepoints, as globs of `CATEGORY:EVENT`, all of whose fields the user may see: they must describe
            only what the calling process itself does.
        drivers: Kernel modules, as globs, whose functions may be traced; in interrupts and in kernel threads, they are
            only counted.
        driver_tracepoints: Tracepoints that are traced in the same way.
        presets: Presets whose probes may be traced, with their columns: in kernel functions, which are otherwise
            traced without any, and for what the preset says is of the device, also in interrupts and kernel threads.
        rate_hz: Maximum samples per second of a processor, of all traces of a user together.

    """

    kinds: tuple[str, ...] = ("tracepoint", *USER_KINDS, *KERNEL_KINDS, "profile", "offcpu")
    tracepoints: tuple[str, ...] = ("syscalls:*", "raw_syscalls:*", "exceptions:page_fault_user")
    drivers: tuple[str, ...] = field(default_factory=lambda: _of_presets("user_drivers"))
    driver_tracepoints: tuple[str, ...] = field(default_factory=lambda: _of_presets("user_tracepoints"))
    presets: tuple[str, ...] = field(default_factory=lambda: tuple(preset.name for preset in _for_users()))
    rate_hz: int = 999


@dataclass(frozen=True)
class UserLimits:
    """How much a user may trace.

    Attributes:
        processes: Processes of one user that use the broker at once.
        all_processes: Those of all users.
        traces: Traces of one process at once.
        places: Probe points of all traces of a user together.
        buffer_mib: Their ring buffers, MiB.
        duration_s: Length of a trace, s; the broker then detaches its probes.
        hits_per_s: Hits per second of all traces of a user together; the broker then detaches the probes of the trace
            with the most.
        processor_share: Time that their programs run, as a share of one processor; the same. It is known only while
            the kernel measures it: if the broker has CAP_SYS_ADMIN, or with the sysctl kernel.bpf_stats_enabled=1.

    """

    processes: int = 8
    all_processes: int = 64
    traces: int = 4
    places: int = 4000
    buffer_mib: float = 1024.0
    duration_s: float = 3600.0
    hits_per_s: float = 5_000_000.0
    processor_share: float = 0.5


@dataclass(frozen=True)
class BrokerPolicy:
    """The whole policy."""

    users: Users = field(default_factory=Users)
    probes: Probes = field(default_factory=Probes)
    limits: UserLimits = field(default_factory=UserLimits)

    def admits(self, uid: int, groups: tuple[int, ...]) -> bool:
        """Whether a user may use the broker."""
        name, of = _user_name(uid), [_group_name(group) for group in groups]
        return any(fnmatchcase(name, glob) for glob in self.users.names) or any(
            fnmatchcase(group, glob) for group in of for glob in self.users.groups
        )

    def allow(self, plan: Plan) -> Plan:
        """Check a plan; return it with the scope that each point may have.

        Args:
            plan: A plan whose points count for the user's own processes.

        Raises:
            ProbeError: It has something that is not allowed.

        """
        points = plan.kernel_points
        if any(point.scope.name != "self" for point in points):
            raise ValueError("the plan has hits of other processes")  # the session makes no such plans
        for point in points:
            if refusal := self._refusal(point, plan.request.args):
                raise ProbeError(
                    f"{point.probe} is not allowed through the broker", why=refusal, fix=_ASK, code="broker.not-allowed"
                )
        longest_s = self.limits.duration_s
        if plan.request.duration_s is not None and plan.request.duration_s > longest_s:
            _too_much(f"--duration {plan.request.duration_s:g}", f"the limit is {longest_s:g} s", "use a shorter one")
        allowed = tuple(map(self._scoped, plan.points))
        only_counted = plan.records_events and any(point.scope.kernel == "counts" for point in allowed)
        return replace(plan, points=allowed, notes=(*plan.notes, *([_ONLY_COUNTED] if only_counted else ())))

    def require_room(self, added: Claim, whole: Claim) -> None:
        """Check what a trace adds to the others of its user.

        Args:
            added: What the trace takes.
            whole: What all traces of the user take, with this one.

        Raises:
            ProbeError: It is more than the user may have.

        """
        limits = self.limits
        for of, largest, text, fix in (
            ("places", limits.places, "{:,.0f} places", "narrow the globs"),
            ("buffer_mib", limits.buffer_mib, "--buffer {:g}", "use a smaller one"),
            ("rate_hz", self.probes.rate_hz, "sampling {:g} times a second", "use a lower rate"),
        ):
            of_all, of_this = getattr(whole, of), getattr(added, of)
            if of_this and of_all > largest:
                others = f", and the user's other traces have {of_all - of_this:,g}" if of_all > of_this else ""
                _too_much(text.format(of_this), f"the limit {of} is {largest:,g}{others}", fix)

    def _scoped(self, point: ProbePoint) -> ProbePoint:
        """Let the hits of kernel threads and interrupts count where they are a driver's."""
        if point.kind == "tracepoint" and (name := presets.object_field(point.probe, point.target)):
            return replace(point, scope=replace(point.scope, kernel="owned", object_field=name))
        if not self._is_of_driver(point):
            return point
        shown: Literal["counts", "events"] = "events" if presets.is_of_device(point.probe) else "counts"
        return replace(point, scope=replace(point.scope, kernel=shown))

    def _is_of_driver(self, point: ProbePoint) -> bool:
        if point.kind in KERNEL_KINDS:
            return _matches(point.target, self.probes.drivers)
        return point.kind == "tracepoint" and _matches(_event(point), self.probes.driver_tracepoints)

    def _refusal(self, point: ProbePoint, args: str) -> str:
        """Why a point is not allowed; '' if it is."""
        probes, preset = self.probes, point.probe.partition(":")[0]
        if point.kind not in probes.kinds:
            return f"the broker allows {', '.join(probes.kinds)}"
        if presets.is_preset(point.probe):
            if preset not in probes.presets:
                return f"of the presets, the broker allows {', '.join(probes.presets) or 'none'}"
        elif point.kind == "tracepoint" and not _matches(_event(point), probes.tracepoints):
            if not self._is_of_driver(point):
                return f"of the tracepoints, the broker allows {_listed(probes.tracepoints, probes.driver_tracepoints)}"
        elif point.kind in KERNEL_KINDS and not self._is_of_driver(point):
            return f"of the kernel's functions, the broker allows those of {_listed(probes.drivers) or 'no module'}"
        return _reads_kernel(point, args) if point.kind in KERNEL_KINDS else ""


def _matches(text: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(text, glob) for glob in globs)


def _event(point: ProbePoint) -> str:
    return f"{point.target}:{point.function}"


def _listed(*globs: tuple[str, ...]) -> str:
    return ", ".join(glob for several in globs for glob in several)


def _reads_kernel(point: ProbePoint, args: str) -> str:
    """Why a point in a kernel function would show the kernel's memory or its addresses; '' if it would not."""
    if set(point.captures) & set(captures.parse(args)):
        return "--args would show the kernel's memory: only a preset's columns are allowed in kernel functions"
    used = " ".join((point.filter.entry, point.filter.exit, *point.filter.saved))
    if "AM_ARG" in used or "AM_RETVAL" in used:
        return "in kernel functions, --filter may use pid, tid, comm, cpu and duration: others would show addresses"
    return ""


def _too_much(what: str, why: str, instead: str) -> None:
    raise ProbeError(
        f"{what} is more than the broker allows",
        why=why,
        fix=f"{instead}, or {_ASK}",
        code="broker.limit",
    )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def load(path: Path = FILE) -> BrokerPolicy:
    """Read a policy; without the file, the default one.

    Raises:
        MachineError: It cannot be read, others than its owner can write to it, or its content is not a policy.

    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return BrokerPolicy()
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        os.close(descriptor)
        raise _unusable(path, "it is not a file that only root, or this user, can write to")
    with os.fdopen(descriptor, "rb") as file:
        try:
            data = tomllib.loads(file.read(_LARGEST).decode())
            return _decoded(data)
        except (ValueError, TypeError) as error:
            raise _unusable(path, str(error)) from None


def _decoded(data: dict[str, Any]) -> BrokerPolicy:
    parts: dict[str, Any] = {}
    kinds = {"users": Users, "probes": Probes, "limits": UserLimits}
    for name, values in data.items():
        if name not in kinds or not isinstance(values, dict):
            raise ValueError(f"unknown part [{name}]; there are {', '.join(kinds)}")
        parts[name] = kinds[name](**_values(kinds[name], name, values))
    return BrokerPolicy(**parts)


def _values(kind: type, part: str, values: dict[str, Any]) -> dict[str, Any]:
    hints, known = get_type_hints(kind), {each.name for each in fields(kind)}
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"[{part}] has no {name}; it has {', '.join(sorted(known))}")
        if hints[name] in (int, float):
            fits = isinstance(value, hints[name] | int) and not isinstance(value, bool) and value >= 0
            requested, convert = "a number", hints[name]
        else:
            fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
            requested, convert = "a list of texts", tuple
        if not fits:
            raise ValueError(f"[{part}] {name} must be {requested}")
        checked[name] = convert(value)
    return checked


def _unusable(path: Path, why: str) -> MachineError:
    return MachineError(
        f"{path} is not a usable policy",
        why=why,
        fix="correct it, and run: accel-magic broker check",
        code="broker.bad-policy",
    )
