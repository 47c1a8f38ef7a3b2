"""Small libraries made with the system's compiler, and what binutils say of them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

SOURCE = """\
#define KEPT __attribute__((noinline, used))
int shared;
static KEPT int hidden(int a) { for (int i = 0; i < a; i++) shared += i * a; return shared; }
KEPT int open_one(int a) { for (int i = 0; i < a; i++) shared += hidden(i); return shared; }
KEPT int _open_two(int a) { return open_one(a) + hidden(a + 1); }
int __also_one(int) __attribute__((alias("open_one")));
int also_two(int) __attribute__((alias("_open_two")));
"""


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Compile C: `compiled(text, "name", "-O2")` is the path of a shared library."""
    for tool in ("gcc", "nm", "objcopy"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    folder = tmp_path_factory.mktemp("libraries")

    def build(text, name, *options):
        path = folder / f"{name}.so"
        if not path.exists():
            source = folder / f"{name}.c"
            source.write_text(text)
            subprocess.run(
                ["gcc", "-shared", "-fPIC", "-Wl,--build-id", *(options or ("-O1",)), "-o", path, source], check=True
            )
        return path

    return build


@pytest.fixture
def library(compiled):
    """A library with two exported functions, another name for each, and a hidden one."""
    return compiled(SOURCE, "named", "-O1", "-falign-functions=64")


@pytest.fixture
def nm():
    """Functions of a file as binutils read them: {name: (address, size)}."""

    def read(path, *options):
        lines = subprocess.run(["nm", "-S", *options, path], capture_output=True, text=True, check=True).stdout
        rows = [line.split() for line in lines.splitlines()]
        return {row[3]: (int(row[0], 16), int(row[1], 16)) for row in rows if len(row) == 4 and row[2] in "tTwW"}

    return read
