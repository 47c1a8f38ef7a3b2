"""The environment of all tests: the same on every machine, whatever the caller's shell has set."""

import os
import re
import tempfile

PACKAGES = "ACCEL_MAGIC_"
KEPT = frozenset(
    f"{PACKAGES}{name}"
    for name in (
        "BPFTIME", "BPF_CONFORMANCE", "CACHE", "FUZZ_PROGRAMS", "FUZZ_SEED", "GPU", "GPU_EXT", "LAB_HYPERVISOR",
        "REQUIRE_GPU", "REQUIRE_LAB", "REQUIRE_LIVE", "THOROUGH", "UVM_SMART",
    )
)  # fmt: skip
"""Variables that choose what is tested, and the folders of large files. The package's others are for its users."""
GUEST = "ACCEL_MAGIC_LAB"
"""Set in the guest of a lab, whose variables are all the lab's."""
LOCALE = ("LC_", "LANG")
OWN = {
    "ACCEL_MAGIC_BROKER": "",  # tests start their own: this machine's, or the socket that one left, is not for them
    "ACCEL_MAGIC_LAB_SNAPSHOT": "off",  # labs boot, except in tests of snapshots
    "LC_ALL": "C.UTF-8",
    # Half a minute by default, in which workers may not even start on a busy machine.
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "240s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "240s",
}
UMASK = 0o022
TEMPORARY = re.compile(r"/[\w./-]{,40}")
"""Folders for temporary files that all tests can use: sockets need short paths, and preloaded libraries plain ones."""


def own():
    """Set the environment of this process and its children, before anything reads it."""
    os.umask(UMASK)
    for name in [*os.environ]:
        foreign = name.startswith(PACKAGES) and name not in KEPT and GUEST not in os.environ
        if foreign or name.startswith(LOCALE):
            del os.environ[name]
    if not TEMPORARY.fullmatch(os.environ.get("TMPDIR", "/")):
        del os.environ["TMPDIR"]
        tempfile.tempdir = None  # pytest has asked for it already
    os.environ.update(OWN)
