"""The Python of this process, and the packages in it."""

from __future__ import annotations

import importlib.metadata
import platform
import sys

from packaging.requirements import Requirement

from accel_magic.checks import Check

_NEWEST_TESTED = (3, 14)
# What works without each of them; a package not named here is needed for any tracing.
_WITHOUT_PACKAGE = {
    "ipykernel": "the magics still work in a terminal's IPython, and accel_magic.recording in a script",
    "ipython": "accel_magic.recording still works in a script",
    "ipywidgets": "traced cells show no live counters",
    "bokeh": "results have no figures",
}
_PACKAGES = ("ipykernel", "ipython", "ipywidgets", "bokeh", "pandas")


def checks() -> tuple[Check, ...]:
    """Check the interpreter and the packages that accel_magic uses."""
    return (_python(), *map(_package, _PACKAGES))


def _python() -> Check:
    detail = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] > _NEWEST_TESTED:
        newest = ".".join(map(str, _NEWEST_TESTED))
        return Check("Python", "info", f"{detail}; newer than the newest tested version, {newest}")
    return Check("Python", "ok", detail)


def _package(name: str) -> Check:
    requirement = _requirements().get(name)
    requested = str(requirement.specifier) if requirement is not None else ""
    fix = f"{sys.executable} -m pip install '{name}{requested}'"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        if name in _WITHOUT_PACKAGE:
            return Check(name, "warning", f"not installed; {_WITHOUT_PACKAGE[name]}", fix)
        return Check(name, "missing", "not installed", fix)
    if requirement is None:
        return Check(name, "info", f"{version}; required version unknown: accel-magic is not installed as a package")
    if not requirement.specifier.contains(version, prereleases=True):
        return Check(name, "warning", f"{version}, but accel_magic requires {requested}", fix)
    return Check(name, "ok", f"{version} (required: {requested})")


def _requirements() -> dict[str, Requirement]:
    """Requirements of accel_magic by package; empty if its metadata is not installed (run from a source tree)."""
    try:
        lines = importlib.metadata.requires("accel-magic") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found = (Requirement(line) for line in lines)
    return {one.name: one for one in found if one.marker is None or one.marker.evaluate({"extra": ""})}
