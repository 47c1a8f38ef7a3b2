"""Encodings and line ends of other tools' files. The oracle is Python's own codecs."""

from __future__ import annotations

import codecs
import functools
import json

import pytest

import accel_magic
from accel_magic import subsystems
from accel_magic.formats import text_file
from accel_magic.formats.recognise import recognise
from accel_magic.result_bases.profile import ProfileResult
from accel_magic.results.trace_result import TraceResult
from tests.unit.formats.conftest import SAMPLES
from tests.unit.formats.test_recognise import IAPROF, SPEEDSCOPE, V8

pytestmark = pytest.mark.component

PERF = b"app 21 [001] 100.001000: 1000000 cpu-clock: \n\t  401b97 a+0x1f (/usr/bin/x)\n\n" * 2
FILES = {
    "folded.txt": b"main;load 10\nmain;compute 15\nmain;st\xc3\xb6re 5\n",
    "perf.txt": PERF,
    "iaprof.txt": IAPROF,
    "scope.json": json.dumps(SPEEDSCOPE, indent=1).encode(),
    "chrome.json": json.dumps(V8, indent=1).encode(),
    "pages.csv": b"page,write,kernel\n1,R,a\n2,W,b\n",
    "access.txt": b"786432 0xc0000000 32 100 1 0 5\n786433 0xc0001000 32 105 0 0 6\nK: 1 200\n",
    **{path.name: path.read_bytes() for path in sorted(SAMPLES.iterdir())},
}
FORMS = {
    "UTF-8 with a mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16, big end first": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    "UTF-16 without a mark": lambda text: text.encode("utf-16-le"),
    "UTF-16, big end first, without a mark": lambda text: text.encode("utf-16-be"),
    "UTF-32": lambda text: text.encode("utf-32"),
    "carriage returns": lambda text: text.replace("\n", "\r").encode(),
    "UTF-16 with carriage returns": lambda text: text.replace("\n", "\r").encode("utf-16"),
    "Windows": lambda text: codecs.BOM_UTF8 + text.replace("\n", "\r\n").encode(),
    "PowerShell": lambda text: text.replace("\n", "\r\n").encode("utf-16"),
}


def content(result):
    """Everything that a result shows, as text."""
    match result:
        case TraceResult():
            return result.counts.to_csv(), result.df.to_csv(), result.recording.notes
        case ProfileResult():
            return result.total, result.frames.to_csv()
    return result.frame().to_csv()


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return the format and the content of each file as it is, by its name."""
    folder = tmp_path_factory.mktemp("plain")

    def of(name):
        (folder / name).write_bytes(FILES[name])
        return recognise(folder / name, subsystems.formats()).name, content(accel_magic.open(folder / name))

    return functools.cache(of)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FILES)
def test_every_format_is_read_the_same_in_all_encodings_and_line_ends(name, form, tmp_path, plain):
    path = tmp_path / name
    path.write_bytes(FORMS[form](FILES[name].decode()))

    assert (recognise(path, subsystems.formats()).name, content(accel_magic.open(path))) == plain(name)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 1 << 18, (1 << 18) + 1, 1_200_001])
def test_a_file_of_any_size_is_converted_completely(form, size, tmp_path):
    text = ("a;b\u20ac\U0001f600 12\n" * (size // 12 + 1))[:size] + "\n"
    path = tmp_path / "file"
    path.write_bytes(FORMS[form](text))
    universal = form not in ("Windows", "PowerShell")

    read = text_file.read(path)

    assert (read if universal else read.replace(b"\r\n", b"\n")) == text.encode()
    with text_file.opened(path) as file:
        pieces = b"".join(iter(lambda: file.read(1_000), b""))
    assert pieces == read


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("lines", [1, 5_000])
def test_the_last_line_without_a_line_end_is_found(form, lines, tmp_path):
    path = tmp_path / "file"
    for text, last in (("main;load 12\n" * lines + "main;lo", b"main;lo"), ("main;load 12\n" * lines, b"")):
        path.write_bytes(FORMS[form](text))
        assert text_file.unended(path) == last


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a\r\nb\r\n",
        b"a\xff\xfe b\n",
        b"10%\r20%\rdone\nnext\nand\nmore\n",
        bytes(range(256)),
    ],
)
def test_other_bytes_are_unchanged(data, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(data)

    assert text_file.read(path) == data


def test_invalid_bytes_of_a_file_with_carriage_returns_are_kept(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a\xff 1\rb 2\r")

    assert text_file.read(path) == b"a\xff 1\nb 2\n"
