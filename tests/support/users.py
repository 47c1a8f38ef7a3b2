"""Commands that run as other users, with this interpreter, even if it is in a folder that only root may enter."""

import os
import shlex
import sys
from pathlib import Path

FIRST, SECOND = 61001, 61002
"""Ids of users without a name or any right."""


def hidden():
    """Folders on the way to the interpreter and to this package that other users cannot enter."""
    paths = [Path(sys.executable), Path(os.path.realpath(sys.executable)), Path(__file__)]
    folders = {folder for path in paths for folder in path.parents}
    return sorted(folder for folder in folders if not folder.stat().st_mode & 0o001)


def command(uid, *words):
    """A command as another user without any right, in a mount namespace where it can reach the interpreter."""
    steps = []
    for number, folder in enumerate(hidden()):
        # The same content under the same path, in a folder that everybody may enter.
        kept = f"/tmp/accel_magic-hidden-{number}"
        entries = f"for one in $(ls -A {kept}); do if [ -d {kept}/$one ]; then mkdir {folder}/$one; "
        entries += f"mount --rbind {kept}/$one {folder}/$one; fi; done"
        steps += [f"mkdir -p {kept}", f"mount --bind {folder} {kept}"]
        steps += [f"mount -t tmpfs -o mode=755 tmpfs {folder}", entries]
    without = f"--reuid={uid} --regid={uid} --clear-groups --bounding-set=-all --inh-caps=-all"
    steps.append(f"exec setpriv {without} -- {shlex.join(words)}")
    return ["unshare", "--mount", "sh", "-ec", "; ".join(steps)]
