"""`attach_policy(...)`: run code under a policy in the machine's own GPU driver."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from accel_magic.api.block import Block
from accel_magic.errors import ProbeError
from accel_magic.interrupts import uninterrupted
from accel_magic.policies import driver
from accel_magic.policies.attached import DriverRun, OnDriver
from accel_magic.policies.policy import load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

    from accel_magic.policies.attached import MapState
    from accel_magic.policies.policy import Policy
    from accel_magic.recording import session
    from accel_magic.recording.recording import Outcome
    from accel_magic.results.driver import DriverResult


class DriverPolicy(Block["DriverResult"]):
    """A policy around a block of code: attached when the block begins, detached when it ends, however it ends.

    Args:
        policy: As for `accel_magic.gpupolicy`.
        settings: Likewise.
        module: The driver's module, if it is not NVIDIA's.

    """

    KIND: ClassVar[session.Kind] = "gpupolicy"

    def __init__(self, policy: str | Path, *, settings: Mapping[str, int] | None = None, module: str = "") -> None:
        super().__init__()
        self._given, self._settings, self._module = policy, dict(settings or {}), module
        self._policy: Policy | None = None
        self._driver: driver.Driver | None = None
        self._loaded: OnDriver | None = None
        self._notes: tuple[str, ...] = ()
        self._before: tuple[MapState, ...] = ()
        self._start_ns = self._end_ns = 0
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
        self._policy = load(self._given, settings=self._settings)
        unused = sorted(self._settings.keys() - self._policy.settings)
        if unused:
            raise ProbeError(
                f"{self._policy.name} has no {', '.join(unused)}",
                why="settings are names of constants and initialised variables, or MAP.KEY",
                fix="look at the policy's source",
                code="program.bad-setting",
            )
        self._driver, self._notes = driver.require(self._policy, module=self._module)

    def _attach(self, show: Callable[[list[Any]], None] | None) -> None:  # noqa: ARG002 - there are no counters to show
        """Load and attach the policy.

        Raises:
            MachineError: A privilege or the loader is missing.
            PolicyRefusedError: The kernel refuses it.

        """
        assert self._policy is not None  # noqa: S101 - after prepare
        with uninterrupted():
            self._loaded = loaded = OnDriver(self._policy)
            self._undo.callback(loaded.close)
            self._before = loaded.maps()
            loaded.attach()

    def go(self) -> None:
        """The code starts here."""
        self._started = datetime.now().astimezone().isoformat(timespec="seconds")
        self._start_ns, self._end_ns = time.monotonic_ns(), 0

    def halt(self) -> None:
        """Record the end time; the policy acts until it is detached."""
        self._end_ns = self._end_ns or time.monotonic_ns()

    def _finish(self, outcome: Outcome, value: object) -> DriverResult:
        policy, loaded, found = self._policy, self._loaded, self._driver
        assert policy is not None  # noqa: S101 - after prepare
        assert loaded is not None  # noqa: S101 - after attach
        assert found is not None  # noqa: S101 - after prepare
        loaded.detach()
        run = DriverRun(
            policy=policy.name,
            module=found.module,
            before=self._before,
            after=loaded.maps(),
            started=self._started,
            duration_ns=self._end_ns - self._start_ns,
            outcome=outcome,
            notes=(*self._notes, *loaded.unread()),
            lints=policy.lints,
        )
        from accel_magic.results.driver import DriverResult

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
