from __future__ import annotations

from accel_magic.gpu.adapters.entries import Parameter, architecture, entries

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
        "first": (Parameter("u", 8), Parameter("f", 4), Parameter("b", 24, array=True)),
        "_Z6secondv": (),
        "third": (),
    }


def test_a_module_without_entries_has_none():
    assert entries(".version 7.0\n.target sm_80\n.func helper() { ret; }") == {}


def test_the_target_is_told():
    assert architecture(MODULE) == "sm_80"
    assert architecture(".target sm_90a") == "sm_90a"
    assert architecture("") == ""
