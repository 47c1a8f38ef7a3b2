"""Plans of probes, for tests."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from accel_magic.probes import matching
from accel_magic.probes.plan import Plan, TraceRequest

_REQUESTED = {field.name for field in fields(TraceRequest)}


def make_plan(specs, *, pid=None, root=Path("/"), places=None, **request):
    """Match probes; `request` are the other fields of the request."""
    return matching.make_plan(TraceRequest(tuple(specs), **request), pid=pid, root=root, places=places)


def plan_of(points, **fields_):
    """A plan of these points; the arguments are fields of the plan and of its request."""
    request = {name: fields_.pop(name) for name in _REQUESTED & fields_.keys() if name != "stacks"}
    return Plan(tuple(points), TraceRequest((), **request), **fields_)
