"""`attach_policy(...)`: run code under a policy in the machine's own GPU driver."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from accel_magic.api.block import Block
from accel_magic.errors import ProbeError
from accel_magic.interrupts import uninterrupted
from accel_magic.kernel import features
from accel_magic.policies import driver
from accel_magic.policies.driver_engine import DriverRun, OnDriver
from accel_magic.policies.policy import load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

    from accel_magic.engine.trace_kinds import Kind
    from accel_magic.policies.driver_engine import MapState
    from accel_magic.policies.policy import Policy
    from accel_magic.recording.recording import Outcome
    from accel_magic.results.driver_result import DriverResult


@dataclass(frozen=True)
class _Prepared:
    """A verified policy, the driver that it fits, and notes for the user."""

    policy: Policy
    driver: driver.PolicyDriver
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Attached:
    """A policy in the driver, and its maps before the code ran."""

    prepared: _Prepared
    loaded: OnDriver
    before: tuple[MapState, ...]


class DriverPolicy(Block["DriverResult", _Attached]):
    """A policy around a block of code: attached when the block begins, detached when it ends, however it ends.

    Args:
        policy: As for `accel_magic.gpupolicy`.
        settings: Likewise.
        module: The driver's module, if it is not NVIDIA's.

    """

    KIND: ClassVar[Kind] = "gpupolicy"

    def __init__(self, policy: str | Path, *, settings: Mapping[str, int] | None = None, module: str = "") -> None:
        super().__init__()
        self._given, self._settings, self._module = policy, dict(settings or {}), module
        self._prepared: _Prepared | None = None
        self._end_ns = 0
        self._started = ""

    def again(self) -> DriverPolicy:
        """Make another one with the same arguments."""
        return DriverPolicy(self._given, settings=self._settings, module=self._module)

    def _warm_up(self) -> None:
        pass  # neither the compiler nor the reader is needed

    def prepare(self) -> None:
        """Verify the policy and compare it with the driver; nothing is loaded yet.

        Raises:
            ProbeError: A setting is wrong.
            ProgramError: The policy does not compile, or the verifier rejects it.
            MachineError: There is no driver with gpu_ext, or it is not the one that the policy was compiled for.

        """
        features.require_linux()
        self._prepared = self._checked()

    def _checked(self) -> _Prepared:
        """Verify and compare, as `prepare`."""
        policy = load(self._given, settings=self._settings)
        unused = sorted(self._settings.keys() - policy.settings)
        if unused:
            raise ProbeError(
                f"{policy.name} has no {', '.join(unused)}",
                why="settings are names of constants and initialised variables, or MAP.KEY",
                fix="look at the policy's source",
                code="program.bad-setting",
            )
        return _Prepared(policy, *driver.require(policy, module=self._module))

    def _attach(self, show: Callable[[list[Any]], None] | None) -> _Attached:  # noqa: ARG002 - there are no counters to show
        """Load and attach the policy.

        Raises:
            MachineError: A privilege or the loader is missing.
            PolicyRefusedError: The kernel refuses it.

        """
        prepared = self._checked() if self._prepared is None else self._prepared
        with uninterrupted():
            loaded = OnDriver(prepared.policy)
            self._undo.callback(loaded.close)
            before = loaded.maps()
            loaded.attach()
        return _Attached(prepared, loaded, before)

    def go(self) -> None:
        """The code starts here."""
        self._started = datetime.now().astimezone().isoformat(timespec="seconds")
        self.start_ns, self._end_ns = time.monotonic_ns(), 0

    def halt(self) -> None:
        """Record the end time; the policy acts until it is detached."""
        self._end_ns = self._end_ns or time.monotonic_ns()

    def _finish(self, attached: _Attached, outcome: Outcome, value: object) -> DriverResult:
        prepared, loaded = attached.prepared, attached.loaded
        loaded.detach()
        run = DriverRun(
            policy=prepared.policy.name,
            module=prepared.driver.module,
            before=attached.before,
            after=loaded.maps(),
            started=self._started,
            duration_ns=self._end_ns - self.start_ns,
            outcome=outcome,
            notes=(*prepared.notes, *loaded.unread()),
            lints=prepared.policy.lints,
        )
        from accel_magic.results.driver_result import DriverResult

        return DriverResult(run, self.machine, value)


def attach_policy(policy: str | Path, *, settings: Mapping[str, int] | None = None, module: str = "") -> DriverPolicy:
    """Run code under a policy in the machine's own GPU driver: NVIDIA's with gpu_ext.

    ```python
    with accel_magic.attach_policy("lfu") as p:
        work()
    p.result.maps
    ```

    Args:
        policy: Name of a shipped policy, a C file in gpu_ext's interface, an object compiled from one, or C (text).
        settings: Values of its constants ("quota") and of entries of its maps ("policy_config.1").
        module: The driver's module, if it is not NVIDIA's: in the accelerator lab, "accel_lab".

    Raises:
        ProbeError: On entering: a setting is wrong.
        ProgramError: On entering: the policy does not compile, or a verifier rejects it.
        MachineError: On entering: there is no such driver, it is not the one that the policy was compiled for, or a
            privilege or the loader is missing.

    """
    return DriverPolicy(policy, settings=settings, module=module)
