"""Hatchling's hook: compile the package's small libraries into the wheel; else, they are compiled on first use."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CollectorHook(BuildHookInterface):  # type: ignore[misc]
    """Called for wheels, including editable ones."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's
        """Build the collector of tasks and the libraries that patch and mark steps; the wheel is one for this platform.

        Where one of them cannot be built, the wheel has neither, and is one for all platforms.
        """
        if self.target_name != "wheel":
            return
        sys.path.insert(0, self.root)
        from accel_magic import c_programs
        from accel_magic.errors import MachineError
        from accel_magic.itt import collector
        from accel_magic.patching import library_file
        from accel_magic.steps import library

        programs = {
            Path("accel_magic", "itt", collector.SHIPPED): collector.program(),
            Path("accel_magic", "patching", library_file.SHIPPED): library_file.program(),
            Path("accel_magic", "steps", library.NAME): library.program(),
        }
        try:
            for built, program in programs.items():
                c_programs.build(program, Path(self.root, built))
        except MachineError as error:
            for built in programs:
                Path(self.root, built).unlink(missing_ok=True)
            self.app.display_warning(str(error))
            return
        build_data["artifacts"] += [f"/{built.as_posix()}" for built in programs]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
