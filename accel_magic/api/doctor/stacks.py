"""The stacks that can be taken here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.checks import Check
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator


def checks() -> Iterator[Check]:
    """Check which stacks `--stacks` can take besides the kernel's."""
    from accel_magic.kernel.stacks import python_layout
    from accel_magic.kernel.symbols.frame_pointers import frame_pointers

    try:
        python_layout.layout()
    except MachineError as error:
        yield Check("Python stacks", "info", f"{error.what}: {error.why}", error.fix)
    else:
        yield Check("Python stacks", "ok", "the frames of this Python can be read")
    kept, why = frame_pointers()
    yield Check("native stacks", *(("ok", why) if kept else ("info", f"{why}: stacks end early there")))
