"""Hatchling's hook: compile the ITT collector into the wheel. Without a C compiler, it is compiled on first use."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CollectorHook(BuildHookInterface):  # type: ignore[misc]
    """Called for wheels, including editable ones."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's
        """Build `accel_magic/itt/libaccel_magic_itt.so`, and mark the wheel as one for this platform."""
        if self.target_name != "wheel":
            return
        sys.path.insert(0, self.root)
        from accel_magic import c_programs
        from accel_magic.errors import MachineError
        from accel_magic.itt import collector

        built = Path(self.root, "accel_magic", "itt", collector.SHIPPED)
        try:
            c_programs.build(collector.program(), built)
        except MachineError as error:
            built.unlink(missing_ok=True)
            self.app.display_warning(str(error))
            return
        build_data["artifacts"].append(f"/accel_magic/itt/{collector.SHIPPED}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
