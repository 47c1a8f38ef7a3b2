"""`accel-magic broker`: run the service that traces for users without privilege, and look at it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic.errors import MachineError

if TYPE_CHECKING:
    import argparse

    from accel_magic.command_line.basics import Commands


def add(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("broker", help="trace for users without privilege (experimental)")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    run = actions.add_parser("run", help="serve until terminated; needs the privilege to trace")
    run.add_argument("--socket", metavar="PATH", help="listen here (/run/accel_magic/broker.sock)")
    run.add_argument("--policy", metavar="FILE", help="what users may do (/etc/accel_magic/broker.toml)")
    run.add_argument("--audit", metavar="FILE", help="append a line for each request here, not to the standard error")
    run.set_defaults(handler=_run)
    check = actions.add_parser("check", help="check a policy, and print it with the defaults filled in")
    check.add_argument("--policy", metavar="FILE", help="the file to check (/etc/accel_magic/broker.toml)")
    check.set_defaults(handler=_check)
    status = actions.add_parser("status", help="show whether there is a broker, and what it allows this user")
    status.set_defaults(handler=_status)


def _policy(options: argparse.Namespace) -> Any:
    from accel_magic.broker import policy

    if options.policy is not None and not Path(options.policy).exists():
        raise MachineError(f"there is no {options.policy}", fix="name an existing file", code="broker.bad-policy")
    return policy.load(policy.FILE if options.policy is None else Path(options.policy))


def _run(options: argparse.Namespace) -> int:
    from accel_magic.broker import service
    from accel_magic.broker.audit import Audit
    from accel_magic.kernel import features

    features.require_tracing()
    policy = _policy(options)
    audit = sys.stderr.fileno()
    if options.audit is not None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            audit = os.open(options.audit, flags, 0o640)
        except OSError as error:
            raise MachineError(
                f"cannot write to {options.audit}",
                why=str(error.strerror),
                fix="name another file",
                code="broker.no-audit",
            ) from None
    listening = service.listen(service.SOCKET if options.socket is None else Path(options.socket))
    service.Service(listening, policy, Audit(audit)).run()
    return 0


def _check(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    _print(asdict(_policy(options)))
    return 0


def _status(_options: argparse.Namespace) -> int:
    from accel_magic.broker import client

    where = client.path()
    if where is None:
        print(f"there is no broker: no socket at {client.SOCKET}")
        return 1
    policy = client.connection().policy
    print(f"a broker listens at {where}; it allows this user:")
    _print({name: policy[name] for name in ("probes", "limits")})
    return 0


def _print(policy: dict[str, Any]) -> None:
    """Print a policy as TOML."""
    for part, values in policy.items():
        print(f"[{part}]")
        for name, value in values.items():
            text = "[" + ", ".join(f'"{each}"' for each in value) + "]" if isinstance(value, list | tuple) else value
            print(f"{name} = {text}")
