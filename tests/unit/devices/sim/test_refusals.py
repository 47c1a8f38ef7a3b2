"""What the device cannot run is refused with its own reason, and a fix that can help."""

from __future__ import annotations

import pytest

from accel_magic.devices.sim import SimulatedDevice
from tests.support.errors import raises

REFUSED = {
    "tex.1d.v4.f32.s32 {%f0,%f1,%f2,%f3}, [image, {%r0}];": "texture and surface references",
    "sust.b.1d.b32.trap [image, {%r1}], {%r2};": "texture and surface references",
    "tex.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%d0, %d1, {%f0,%f1}];": "a separate sampler",
    "tex.2dms.v4.f32.s32 {%f0,%f1,%f2,%f3}, [%d0, {%r0,%r0,%r1,%r1}];": "multisampled",
    "tex.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%d0, {%f0,%f1}], {%r0,%r1};": "texel offsets",
    "tld4.r.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%d0, {%f0,%f1}], %f0;": "depth comparisons",
    "tex.grad.cube.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%d0, {%f0,%f1,%f2,%f2}], {%f0,%f1,%f2,%f2}, {%f0,%f1,%f2,%f2};": (
        "gradients of cube maps"
    ),
    "txq.num_samples.b32 %r0, [%d0];": "its attribute",
    "sust.p.1d.b32.trap [%d0, {%r1}], {%r2};": "formatted accesses",
    "istypep.texref %p0, %d0;": "types of texture",
    "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
    " [%r0], [%d0, {%r1,%r1,%r1}], [%r2], {%r3};": "im2col",
    "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes"
    " [%r0], [%d0, {%r1,%r1,%r1,%r1,%r1}], [%r2];": "four rows",
    "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
    " [%r0], [%d0, {%r1}], [%r2], %r3;": "several blocks",
    "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%d0, {%r1}], [%r2];": "reductions by bulk",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d0], [%r1], %r2;": "reductions by bulk",
    "tensormap.replace.tile.global_address.global.b1024.b64 [%d0], %d1;": "changed in a kernel",
    "tcgen05.wait::ld.sync.aligned;": "tensor memory of sm_100",
    "multimem.ld_reduce.global.add.u32 %r0, [%d0];": "several devices",
    "call.uni (%r0), missing, (%r1);": "missing is not defined",
    "add.b128 %q0, %q0, %q0;": "128-bit registers",
    "fantasy.u32 %r0, %r1;": "does not support the instruction fantasy",
    "ld.global.u32 %r0, [%q0];": "is not an address",
}


@pytest.mark.parametrize("instruction", REFUSED)
def test_each_kind_of_instruction_is_refused_with_its_own_reason(instruction):
    source = (
        ".version 8.7\n.target sm_80\n.address_size 64\n.visible .entry k() {\n"
        ".reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %d<2>; .reg .b128 %q<1>; .reg .pred %p<1>;\n"
        f"{instruction}\nret; }}\n"
    )
    with raises("gpu.ptx.unsupported") as caught:
        SimulatedDevice(1 << 20).load(source)
    assert REFUSED[instruction] in caught.value.why[0].lower() + caught.value.why[1:]
    assert caught.value.fix


def test_a_parameter_that_is_a_texture_reference_is_refused_with_its_reason():
    source = ".version 8.7\n.target sm_80\n.address_size 64\n.visible .entry k(.param .texref image) { ret; }\n"
    with raises("gpu.ptx.unsupported") as caught:
        SimulatedDevice(1 << 20).load(source)
    assert "references (.texref" in caught.value.why
