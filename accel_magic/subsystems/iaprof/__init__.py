"""Profiles of Intel GPUs by intel/iaprof: reading, writing, conversion, stalls, and running iaprof around a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from accel_magic.subsystems.subsystem import Companion, Subsystem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from accel_magic.checks import Check
    from accel_magic.findings import Rule
    from accel_magic.formats.recognise import FileFormat
    from accel_magic.subsystems.iaprof.iaprof_process import IaprofRun
    from accel_magic.subsystems.iaprof.profile import IaprofProfile
    from accel_magic.subsystems.iaprof.result import IaprofResult


def _rules() -> Sequence[Rule[Any]]:
    from accel_magic.subsystems.iaprof.stalls import RULES

    return RULES


def _formats() -> tuple[FileFormat, ...]:
    from accel_magic.subsystems.iaprof.file_format import FORMAT

    return (FORMAT,)


def _check(options: Mapping[str, Any]) -> None:
    from accel_magic.subsystems.iaprof.options import check

    check(options)


def _checks(root: Path, requested: bool) -> Iterable[Check]:
    from accel_magic.subsystems.iaprof.doctor import checks

    return checks(root, requested=requested)


def _run(options: Mapping[str, Any]) -> IaprofRun | None:
    from accel_magic.subsystems.iaprof.options import run_with

    return run_with(options)


def _stored(profile: IaprofProfile) -> dict[str, Any]:
    from accel_magic.subsystems.iaprof.store import to_dict

    return to_dict(profile)


def _opened(data: Any, value: object, banners: tuple[str, ...]) -> IaprofResult:
    from accel_magic.subsystems.iaprof.result import IaprofResult
    from accel_magic.subsystems.iaprof.store import from_dict

    return IaprofResult(from_dict(data), value, banners)


SUBSYSTEM: Final = Subsystem(
    name="iaprof",
    rules=_rules,
    formats=_formats,
    companion=Companion(
        attribute="xe",
        samples="GPU samples",
        check=_check,
        checks=_checks,
        run=_run,
        stored=_stored,
        opened=_opened,
    ),
)
