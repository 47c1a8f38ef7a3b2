"""`accel-magic broker`: run the service that traces for users without privilege, and look at it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic import terminal
from accel_magic.command_line.exit_status import say
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    import argparse

    from accel_magic.broker.broker_messages import RunningTrace
    from accel_magic.command_line.exit_status import Commands


def add(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("broker", help="trace for users without privilege (experimental)")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    run = actions.add_parser("run", help="serve until terminated; needs the privilege to trace")
    run.add_argument("--socket", metavar="PATH", help="listen here (/run/accel_magic/broker.sock)")
    run.add_argument("--policy", metavar="FILE", help="what users may do (/etc/accel_magic/broker.toml)")
    run.add_argument("--audit", metavar="FILE", help="append a line for each request here, not to the standard error")
    run.add_argument("--group", metavar="NAME", help="only members of this group may connect (default: everybody)")
    run.set_defaults(handler=_run)
    for name, handler, text in (
        ("install", _install, "install it as a service of systemd"),
        ("uninstall", _uninstall, "remove the service; the policy stays"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("--dry-run", action="store_true", help="only show what would be written and run")
        action.set_defaults(handler=handler)
    check = actions.add_parser("check", help="check a policy, and print it with the defaults filled in")
    check.add_argument("--policy", metavar="FILE", help="the file to check (/etc/accel_magic/broker.toml)")
    check.set_defaults(handler=_check)
    status = actions.add_parser("status", help="show what the broker allows this user, and running traces")
    status.set_defaults(handler=_status)


def _policy(options: argparse.Namespace) -> Any:
    from accel_magic.broker import broker_policy

    if options.policy is not None and not Path(options.policy).exists():
        raise MachineError(f"there is no {options.policy}", fix="name an existing file", code="broker.bad-policy")
    return broker_policy.load(broker_policy.FILE if options.policy is None else Path(options.policy))


def _run(options: argparse.Namespace) -> int:
    from accel_magic.broker import audit, service
    from accel_magic.kernel import features

    features.require_tracing()
    policy = _policy(options)
    lines = sys.stderr.fileno() if options.audit is None else audit.opened(options.audit)
    path = service.SOCKET if options.socket is None else Path(options.socket)
    serving = service.Service(policy, audit.Audit(lines))
    with service.listening(path, options.group) as listening:
        serving.run(listening)
    return 0


def _install(options: argparse.Namespace) -> int:
    from accel_magic.broker import install, service

    if not options.dry_run:
        install.require_possible()
    code = install.code_paths()
    unsafe = next(install.unsafe(code), None)
    work = install.installation(code)
    if options.dry_run:
        print("\n".join(work.shown()))
        if unsafe:
            say(f"warning: {unsafe.error()}")
        return 0
    if unsafe:
        raise unsafe.error()
    install.do(work)
    print("\n".join([f"a broker listens at {service.SOCKET}", *work.notes]))
    return 0


def _uninstall(options: argparse.Namespace) -> int:
    from accel_magic.broker import install

    if not options.dry_run:
        install.require_possible()
    work = install.removal()
    if options.dry_run:
        print("\n".join(work.shown()))
        return 0
    install.do(work)
    print("\n".join([*(f"removed {path}" for path in work.removed), *work.notes]))
    return 0


def _check(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    _print(asdict(_policy(options)))
    return 0


def _status(_options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from accel_magic.broker import broker_client, broker_socket
    from accel_magic.broker.broker_messages import Status, StatusRequest

    where = broker_socket.path()
    if where is None:
        print(f"there is no broker: no socket at {broker_socket.SOCKET}")
        return 1
    broker = broker_client.connection()
    print(f"a broker listens at {where}; it allows this user:")
    _print({"probes": asdict(broker.policy.probes), "limits": asdict(broker.policy.limits)})
    running = broker.ask(StatusRequest(), Status).traces
    print("\nrunning traces:" if running else "\nno traces run")
    rows = [_row(one) for one in running]
    if rows:
        rows.insert(0, ("user", "pid", "trace", "since", "probes"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    _print_pinned()
    return 0


def _print_pinned() -> None:
    from accel_magic.kernel import pinned_maps

    maps = pinned_maps.maps()
    if maps:
        print("\nmaps of traces that were pinned keep their memory until they are removed:")
    for each in maps:
        path = shlex.quote(terminal.one_line(str(each.path)))
        print(f"  rm {path}  # {each.name}, {each.size / 2**20:.1f} MiB, by {_user(each.uid)}")


def _row(running: RunningTrace) -> tuple[str, ...]:
    from datetime import datetime

    trace = running.trace
    since = datetime.fromtimestamp(trace.since).astimezone().isoformat(" ", "seconds")
    return _user(running.uid), str(running.pid), str(trace.number), since, terminal.one_line(trace.probes)


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _print(policy: dict[str, Any]) -> None:
    from accel_magic.broker.install import as_toml

    print("\n".join(as_toml(policy)))
