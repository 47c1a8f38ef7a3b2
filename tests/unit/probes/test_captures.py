from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.errors import ProbeError
from accel_magic.probes.captures import DEFAULT_COLUMNS, SOURCES, TYPES, parse
from accel_magic.probes.plan import Capture
from tests.support.errors import raises


def test_columns_are_parsed_in_order_ignoring_blanks():
    assert parse(" size=arg1:u64, path = arg0 : str,ok=retval:s32") == (
        Capture("size", "arg1", "u64"),
        Capture("path", "arg0", "str"),
        Capture("ok", "retval", "s32"),
    )


def test_columns_can_be_read_from_memory_and_at_return():
    assert parse("size=arg1[0]:u64, id = arg1 [ 12 ] : u32 @return,name=retval[8]:str,rc=retval:s32@return") == (
        Capture("size", "arg1", "u64", 0),
        Capture("id", "arg1", "u32", 12, at_return=True),
        Capture("name", "retval", "str", 8),
        Capture("rc", "retval", "s32", at_return=True),
    )


@pytest.mark.parametrize("text", ["", "  "])
def test_blank_text_gives_no_columns(text):
    assert parse(text) == ()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("size", "capture.bad-syntax"),
        ("size=arg1", "capture.bad-syntax"),
        ("size:u64", "capture.bad-syntax"),
        ("a=arg0:u64,", "capture.bad-syntax"),
        ("1st=arg0:u64", "capture.bad-name"),
        ("größe=arg0:u64", "capture.bad-name"),
        ("a b=arg0:u64", "capture.bad-name"),
        ("x=arg12:u64", "capture.no-source"),
        ("x=arg0:int", "capture.no-type"),
        ("x=arg0:u64:u64", "capture.no-type"),
        ("x=arg0[8]:u64@exit", "capture.no-type"),
        ("x=arg0[8:u64", "capture.no-source"),
        ("x=arg0[-8]:u64", "capture.no-source"),
        ("x=arg12[8]:u64", "capture.no-source"),
        ("x=arg0[65536]:u64", "capture.bad-offset"),
        ("x=arg0:u64@return", "capture.not-at-return"),
        ("x=arg0:u64,x=arg1:u64", "capture.name-twice"),
        *((f"{name}=arg0:u64", "capture.name-taken") for name in DEFAULT_COLUMNS),
    ],
)
def test_invalid_columns_are_rejected(text, code):
    with raises(code, ProbeError) as caught:
        parse(text)
    assert caught.value.fix


pieces = st.sampled_from(
    ["size", "=", ":", ",", "arg1", "arg7", "[", "]", "8", "@return", "u64", "str", "retval", " ", "pid", "ü", "\n"]
)


@given(st.one_of(st.text(), st.lists(pieces, max_size=12).map("".join)))
def test_any_text_gives_safe_columns_or_a_probe_error(text):
    try:
        captures = parse(text)
    except ProbeError:
        return
    for capture in captures:
        assert capture.name.isascii()
        assert capture.name.isidentifier()
        assert capture.source in SOURCES
        assert capture.type in TYPES
