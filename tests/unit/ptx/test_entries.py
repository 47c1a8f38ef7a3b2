from __future__ import annotations

from accel_magic.ptx.entries import EntryParameter, architecture, entries, variables

MODULE = """
.version 7.0
.target sm_80, debug
.address_size 64
// .entry not_this_one(.param .u64 a)
/* .entry nor_this_one() */
.func (.param .b32 out) helper(.param .b32 in);
.visible .entry first(
	.param .u64 .ptr .global .align 16 first_param_0, // an array
	.param .f32 first_param_1,
	.param .align 8 .b8 first_param_2[24]
)
.maxntid 128, 1, 1
{ ret; }
.weak .entry _Z6secondv()
{ ret; }
.entry third { ret; }
"""


def test_entries_are_found_with_their_parameters():
    assert entries(MODULE) == {
        "first": (EntryParameter("u", 8), EntryParameter("f", 4), EntryParameter("b", 24, array=True)),
        "_Z6secondv": (),
        "third": (),
    }


def test_a_module_without_entries_has_none():
    assert entries(".version 7.0\n.target sm_80\n.func helper() { ret; }") == {}


def test_the_target_is_found():
    assert architecture(MODULE) == "sm_80"
    assert architecture(".target sm_90a") == "sm_90a"
    assert architecture("") == ""


def test_variables_that_a_copy_of_the_module_would_not_share_are_listed():
    text = """
.visible .global .align 4 .u32 counter;
.global .align 4 .u32 hidden;
.visible .const .align 4 .b8 table[16];
.weak .const .align 4 .f32 factor = 0f3F800000;
.global .align 1 .b8 $str[4] = {37, 100, 10, 0};
.const .align 4 .b8 own[4] = {1, 2, 3, 4};
.extern .shared .align 4 .b8 dynamic[];
// .visible .global .u32 not_this_one;
.visible .entry f(.param .u64 .ptr .global a) {
    ld.global.u32 %r1, [a];
}
"""
    assert variables(text) == ("counter", "hidden", "table", "factor")
    assert variables(MODULE) == ()
