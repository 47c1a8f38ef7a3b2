"""The engine `driver`: a policy attached to the machine's own GPU driver while code runs."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import scratch
from accel_magic.errors import MachineError
from accel_magic.kernel import bpf_syscalls, features
from accel_magic.kernel.load import bpf_maps
from accel_magic.lab.accelerator import AttachedPolicy, accelerator_programs
from accel_magic.lab.image import accelerator, pins

if TYPE_CHECKING:
    from accel_magic.findings import Finding
    from accel_magic.gpu.program.object_model import MapSpec
    from accel_magic.lab.image.accelerator import AcceleratorFiles
    from accel_magic.policies.policy import Policy
    from accel_magic.recording.recording import Outcome

_NEEDED: Final = "CAP_SYS_ADMIN"
"""The kernel hands out the BTF of modules, by which the loader finds the driver's table, only with it."""


@dataclass(frozen=True)
class MapState:
    """A map of an attached policy at one time: its declaration, and its elements."""

    spec: MapSpec
    content: bpf_maps.MapElements


@dataclass(frozen=True)
class DriverRun:
    """What is known of code that ran under a policy in the driver.

    Attributes:
        policy: The policy's name.
        module: The driver's module.
        before: The policy's maps before it was attached, with its settings.
        after: The same maps after it was detached.
        started: Wall-clock start of the code, ISO 8601.
        duration_ns: How long the code ran.
        outcome: How it ended.
        notes: Notes about the driver, and about maps that could not be read.
        lints: What `accel_magic.policies.lints` found in the policy's code.

    """

    policy: str
    module: str
    before: tuple[MapState, ...]
    after: tuple[MapState, ...]
    started: str
    duration_ns: int
    outcome: Outcome
    notes: tuple[str, ...]
    lints: tuple[Finding, ...]


class OnDriver:
    """A policy that is loaded, with its settings; the driver asks it between `attach` and `detach`.

    Raises:
        MachineError: A privilege or the loader is missing.
        PolicyRefusedError: The kernel's verifier rejects it.

    """

    def __init__(self, policy: Policy) -> None:
        require_privilege()
        self._policy = policy
        self._undo = contextlib.ExitStack()
        try:
            folder = scratch.make("policy")
            self._undo.callback(folder.remove)
            self._loaded = AttachedPolicy(policy.object.data, policy.name, loader(folder.path))
            self._undo.callback(self._loaded.close)
            self._set_values()
        except BaseException:
            self.close()
            raise

    def _set_values(self) -> None:
        specs = {spec.name: spec for spec in self._policy.object.maps}
        for name, given in self._policy.values.items():
            for key, value in given.items():
                bpf_syscalls.map_update(self._loaded.maps[name], key, _for_each_processor(value, specs[name]))

    def attach(self) -> None:
        """Attach it.

        Raises:
            PolicyRefusedError: The kernel refuses, for instance because another policy is attached.

        """
        self._loaded.attach()

    def detach(self) -> None:
        """Detach it; its maps stay until `close`."""
        self._loaded.detach()

    def close(self) -> None:
        """Detach it and free everything; may be called again."""
        self._undo.close()

    def maps(self) -> tuple[MapState, ...]:
        """Copy its maps, except those that `unread` names."""
        return tuple(
            MapState(spec, bpf_maps.read(_described(self._loaded.maps[spec.name], spec)))
            for spec in self._policy.object.maps
            if self._readable(spec)
        )

    def unread(self) -> tuple[str, ...]:
        """Return notes about maps that cannot be read as tables."""
        return tuple(
            f"the map {spec.name} was not read: maps of its type are no tables"
            for spec in self._policy.object.maps
            if not self._readable(spec)
        )

    def _readable(self, spec: MapSpec) -> bool:
        return spec.type in bpf_maps.READABLE and spec.name in self._loaded.maps


def require_privilege() -> None:
    """Check that this process may attach policies.

    Raises:
        MachineError: It may not.

    """
    found = features.capabilities()
    if not found.initial_user_namespace or _NEEDED not in found.held:
        raise MachineError(
            "this process may not attach policies to a driver",
            why=f"that needs {_NEEDED}"
            + ("" if found.initial_user_namespace else ", which counts in the first user namespace only"),
            fix="run Jupyter as root; or try the policy on a trace, which needs no privilege: --engine model",
            code="policy.no-privilege",
        )


def loader(folder: Path) -> Path:
    """Make the program that loads policies, with the libraries that the accelerator lab keeps.

    Args:
        folder: Where to put it.

    Raises:
        MachineError: The lab's accelerator is not built, or the program cannot be compiled.

    """
    files = _files()
    if files is None:
        found = shutil.which(accelerator_programs.NAME)  # within the lab
        if found:
            return Path(found)
        raise MachineError(
            "there is no program that loads policies",
            why="policies are loaded with libbpf 1.5, which is built together with the lab's accelerator",
            fix="python -m accel_magic lab build --accelerator",
            code="policy.no-loader",
        )
    accelerator_programs.install(folder, files)
    return folder / accelerator_programs.NAME


def _files() -> AcceleratorFiles | None:
    """Those of the newest kernel for which they are built: the libraries are the same for all."""
    for kernel in reversed(pins.KERNELS):
        with contextlib.suppress(MachineError):
            return accelerator.find(kernel)
    return None


def _described(descriptor: int, spec: MapSpec) -> bpf_maps.OpenMap:
    return bpf_maps.OpenMap(descriptor, spec.type, spec.max_entries, spec.key_size, spec.value_size)


def _for_each_processor(value: bytes, spec: MapSpec) -> bytes:
    if spec.type not in bpf_maps.PERCPU:
        return value
    return value.ljust(-(-spec.value_size // 8) * 8, b"\0") * bpf_maps.possible_cpus()
