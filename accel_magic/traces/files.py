"""Result files: written whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO


def destination(path: str | Path) -> Path:
    """Absolute path that a result goes to: `~` expanded, links followed.

    Raises:
        RecordingError: It is a folder or a device, or its folder does not exist.

    """
    try:
        target = Path(path).expanduser().resolve()
        folder_there, there, regular = target.parent.is_dir(), target.exists(), target.is_file()
    except (OSError, RuntimeError, ValueError) as error:
        raise RecordingError(f"cannot write {path}", why=str(error), fix="give another path") from error
    if there and not regular:
        why = "it is a folder" if target.is_dir() else "it is not a regular file"
        raise RecordingError(f"cannot write {path}", why=why, fix="give the name of a file")
    if not folder_there:
        raise RecordingError(
            f"cannot write {path}",
            why=f"there is no folder {target.parent}",
            fix=f"create it (mkdir -p {target.parent}) or give another path",
        )
    return target


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Give a binary file to write to, and put it in the place of `target` when the block ends well.

    Until then, and after any error, whatever was at `target` stays untouched and nothing else is left behind.

    Raises:
        RecordingError: The system refuses to write there.

    """
    # Same folder, hence same file system: the rename is atomic. Not mkstemp, whose 0600 would ignore the user's umask.
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise RecordingError(
            f"cannot write {target}",
            why=error.strerror or str(error),
            fix="free some space there, or give a path that you may write to",
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
