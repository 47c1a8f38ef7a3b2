"""Compilers run once in a test run for the same input: their output is kept by everything that goes into it."""

import functools
import hashlib
import os
import re
import shutil
from pathlib import Path

from accel_magic import c_programs
from accel_magic.gpu.program import clang
from tests.support.paths import ROOT

DISTRIBUTIONS = Path("/usr")
"""Compilers elsewhere are those of tests."""
IN_FOLDER = re.compile(r'^\s*#\s*include\s+"[^"\n]*/', re.MULTILINE)
"""An include of a header in a folder below, which may be any."""


def keep(folder, patch):
    """Keep outputs in this folder, while `patch` (a MonkeyPatch) is in effect.

    C programs are those that `c_programs` compiles, eBPF programs those of `gpu.program.clang`. Errors are not
    kept, nor is the output of compilers that a test has made.
    """
    patch.setattr(c_programs, "build", functools.partial(_build, folder, c_programs.build))
    real = clang._Run.output
    patch.setattr(clang._Run, "output", lambda run, *step: _output(folder, real, run, step))


def _build(folder, real, program, target, *, compiler=None):
    found = Path(c_programs._compiler(program, compiler))
    if not found.resolve().is_relative_to(DISTRIBUTIONS):
        real(program, target, compiler=compiler)
        return
    flags = (*c_programs._FLAGS, *program.flags, *program.libraries)
    kept = folder / _digest(found, *flags, *map(Path.read_bytes, (*program.sources, *program.headers)))
    if not kept.exists():
        real(program, target, compiler=compiler)
        _keep(kept, Path(target).read_bytes())
    shutil.copyfile(kept, target)
    Path(target).chmod(0o755)


def _output(folder, real, run, step):
    content = run.path.read_bytes()
    if not Path(run.clang).resolve().is_relative_to(DISTRIBUTIONS) or IN_FOLDER.search(
        content.decode(errors="replace")
    ):
        return real(run, *step)
    searched = [Path(flag[2:]) for flag in run.flags if flag.startswith("-I")]
    quoted = [run.path.absolute().parent, *(Path(flag[7:]) for flag in run.flags if flag.startswith("-iquote"))]
    headers = [*map(_tree, searched), *map(_headers, quoted)]
    flags = [flag for flag in run.flags if not flag.startswith(("-I", "-iquote"))]
    kept = folder / _digest(run.clang, *flags, *step, run.path.name, content, *headers)
    if not kept.exists():
        _keep(kept, real(run, *step))
    return kept.read_bytes()


def _tree(folder):
    """All headers below a folder. Those of the package do not change during the tests."""
    return _package_tree(folder) if folder.is_relative_to(ROOT / "bpf") else _contents(folder.rglob("*.h"))


@functools.cache
def _package_tree(folder):
    return _contents(folder.rglob("*.h"))


def _headers(folder):
    return _contents(folder.glob("*.h"))


def _contents(paths):
    return b"\0".join(part for path in sorted(paths) for part in (path.name.encode(), path.read_bytes()))


def _digest(*parts):
    digest = hashlib.sha256()
    for part in parts:
        encoded = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()


def _keep(path, content):
    """Write a file that other processes see complete or not at all."""
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)
