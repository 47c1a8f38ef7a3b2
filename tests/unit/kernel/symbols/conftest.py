"""Small libraries built with the system's compiler, and their functions according to binutils."""

from __future__ import annotations

import shutil
import struct
import subprocess
import threading

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
    """A library with two exported functions, an alias for each, and a hidden function."""
    return compiled(SOURCE, "named", "-O1", "-falign-functions=64")


@pytest.fixture
def nm():
    """Functions of a file according to binutils: {name: (address, size)}."""

    def read(path, *options):
        lines = subprocess.run(["nm", "-S", *options, path], capture_output=True, text=True, check=True).stdout
        rows = [line.split() for line in lines.splitlines()]
        return {row[3]: (int(row[0], 16), int(row[1], 16)) for row in rows if len(row) == 4 and row[2] in "tTwW"}

    return read


SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")


@pytest.fixture
def elf_file(tmp_path):
    """Write an ELF file of any sections: `elf_file(symtab=(type, bytes or size, link))` is its path.

    A size in place of bytes makes a hole, which takes no space on the disk.
    """

    def write(*, name="made.so", flags=0, **sections):
        path = tmp_path / name
        texts, names = {}, b"\0"
        for title in (*sections, "shstrtab"):
            texts[title] = len(names)
            names += b"." + title.encode() + b"\0"
        headers, at = [SECTION.pack(*[0] * 10)], 4096
        with path.open("wb") as file:
            for title, (type_, content, link) in {**sections, "shstrtab": (3, names, 0)}.items():
                size = content if isinstance(content, int) else len(content)
                if not isinstance(content, int):
                    file.seek(at)
                    file.write(content)
                headers.append(SECTION.pack(texts[title], type_, flags, 0x1000, at, size, link, 0, 8, 24))
                at += -(-size // 4096) * 4096
            file.seek(at)
            file.write(b"".join(headers))
            file.seek(0)
            file.write(b"\x7fELF\x02\x01\x01".ljust(16, b"\0"))
            count = len(headers)
            file.write(struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, at, 0, 64, 56, 1, 64, count, count - 1))
            file.write(struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 1 << 20, 1 << 20, 4096))  # all of it executable
        return path

    return write


@pytest.fixture
def function_symbols():
    """Bytes of a symbol table: `function_symbols((name's place, address), ...)`."""
    return lambda *rows: SYMBOL.pack(*[0] * 6) + b"".join(SYMBOL.pack(name, 0x12, 0, 1, at, 16) for name, at in rows)


@pytest.fixture
def ends():
    """Whether work that might block forever ends within a minute: `ends(work)`."""

    def within_a_minute(work):
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(60)
        return not thread.is_alive()

    return within_a_minute
