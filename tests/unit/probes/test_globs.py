from __future__ import annotations

import difflib

import pytest

from accel_magic.probes.globs import is_glob, matcher, near, suggestion


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("vfs_read", "vfs_read", True),
        ("vfs_read", "vfs_readv", False),
        ("vfs_*", "vfs_read", True),
        ("vfs_*", "do_vfs_read", False),
        ("vfs_?ead", "vfs_read", True),
        ("vfs_[a-r]ead", "vfs_read", True),
        ("vfs_[!a-r]ead", "vfs_read", False),
        ("VFS_*", "vfs_read", False),
        ("a.b", "axb", False),
        ("*", "a.isra.0", True),
    ],
)
def test_globs_match_whole_names(pattern, name, matches):
    assert matcher(pattern)(name) is matches


def test_a_name_without_wildcards_is_not_a_glob():
    assert [is_glob(text) for text in ("a", "a*", "a?", "[ab]")] == [False, True, True, True]


def test_a_mistyped_name_finds_similar_names_best_first():
    names = ["vfs_read", "vfs_readv", "vfs_write", "tcp_sendmsg", "sys_exit"]
    assert near("vfs_raed", names)[:1] == ["vfs_read"]
    assert near("tcp_sndmsg*", names) == ["tcp_sendmsg"]
    assert near("zzzzzz", names) == []
    assert near("*", names) == []


def test_part_of_a_long_symbol_finds_it():
    names = ["_ZN2ov12InferRequest5inferEv", "_ZN2ov4Core14set_propertyERKSs"]
    assert near("*inferreqest*", names) == names[:1]


def test_suggestions_are_sentences():
    assert suggestion("mallocc", ["malloc"]) == "did you mean malloc?"
    assert suggestion("allocx", ["alloc", "allocate"]) == "did you mean alloc or allocate?"
    assert suggestion("mallocc", []) == ""


def test_only_the_likeliest_of_100_000_names_are_compared_by_difflib(monkeypatch):
    names = [f"function_{number:06}_of_some_length" for number in range(100_000)]
    looked_at, look = [], difflib.get_close_matches

    def close(word, among, *rest, **more):
        looked_at.extend(among)
        return look(word, among, *rest, **more)

    monkeypatch.setattr(difflib, "get_close_matches", close)

    assert near("function_012345_of_some_lenght", names)
    assert 0 < len(looked_at) <= 300
