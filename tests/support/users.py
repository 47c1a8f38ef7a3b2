"""Commands that run as other users, with this interpreter, even if it is in a folder that only root may enter."""

import os
import shlex
import sys
from pathlib import Path

import psutil

FIRST, SECOND = 61001, 61002
"""Ids of users without a name or any right."""


def hidden():
    """Folders on the way to the interpreter and to this package that other users cannot enter."""
    paths = [Path(sys.executable), Path(os.path.realpath(sys.executable)), Path(__file__)]
    folders = {folder for path in paths for folder in path.parents}
    return sorted(folder for folder in folders if not folder.stat().st_mode & 0o001)


def namespace(*words, files=None):
    """A command in a mount namespace where everybody can reach the interpreter.

    Args:
        *words: The command.
        files: Other files that take the place of existing ones there, by path.

    """
    steps = [f"mount --bind {shlex.quote(str(other))} {path}" for path, other in (files or {}).items()]
    for number, folder in enumerate(hidden()):
        # The same content under the same path, in a folder that everybody may enter.
        kept = f"/tmp/accel_magic-hidden-{number}"
        entries = f"for one in $(ls -A {kept}); do if [ -d {kept}/$one ]; then mkdir {folder}/$one; "
        entries += f"mount --rbind {kept}/$one {folder}/$one; fi; done"
        steps += [f"mkdir -p {kept}", f"mount --bind {folder} {kept}"]
        steps += [f"mount -t tmpfs -o mode=755 tmpfs {folder}", entries]
    steps.append(f"exec {shlex.join(map(str, words))}")
    return ["unshare", "--mount", "sh", "-ec", "; ".join(steps)]


def command(uid, *words):
    """A command as another user without any right, in such a namespace."""
    without = ["--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
    return namespace("setpriv", f"--reuid={uid}", f"--regid={uid}", *without, "--", *words)


def rights(pid):
    """User ids, and the names and values of capabilities, of a process and all its descendants, by command and id."""
    found = {}
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            command = process.name()
        except (OSError, psutil.NoSuchProcess):
            continue
        values = dict(line.split(":", 1) for line in lines)
        held = {
            name: values[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapAmb") if int(values[name], 16)
        }
        found[command, process.pid] = ({int(uid) for uid in values["Uid"].split()}, held)
    return found
