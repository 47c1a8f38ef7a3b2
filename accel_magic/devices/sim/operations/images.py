"""Textures and surfaces: tex, tld4, txq, suld, sust, sured, suq (PTX ISA, texture and surface instructions)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.devices.sim import memory_access, sampling
from accel_magic.devices.sim.faults import Violation
from accel_magic.devices.sim.instruction_compiler import UnknownFormError, require
from accel_magic.devices.sim.memory_access import LaneAccess
from accel_magic.devices.sim.types import TYPES
from accel_magic.devices.sim.variables import NO_REFERENCES
from accel_magic.ptx.ptx_model import Immediate, Pair, Vector, items_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from accel_magic.devices.sim.images import Sampler, TexelImage, View
    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, Modifiers, Step, Writer
    from accel_magic.devices.sim.instruction_compiler import Reader as Read
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array, PtxType
    from accel_magic.ptx.ptx_model import Operand

_U64, _U32, _S32, _F32 = TYPES["u64"], TYPES["u32"], TYPES["s32"], TYPES["f32"]


@dataclass(frozen=True)
class Geometry:
    """The shape that an instruction expects.

    Attributes:
        axes: Coordinates, without the layer.
        layered: Whether a layer comes first.
        cube: Whether the coordinates are a direction.

    """

    axes: int
    layered: bool = False
    cube: bool = False


_GEOMETRIES: Final = {
    "1d": Geometry(1),
    "2d": Geometry(2),
    "3d": Geometry(3),
    "a1d": Geometry(1, layered=True),
    "a2d": Geometry(2, layered=True),
    "cube": Geometry(3, cube=True),
    "acube": Geometry(3, layered=True, cube=True),
}
_FACES: Final = 6


def _geometry(modifiers: Modifiers, names: Sequence[str]) -> Geometry:
    name = modifiers.one_of(names)
    require(bool(name), "its geometry is not supported; multisampled textures are not")
    return _GEOMETRIES[name]


@dataclass(frozen=True)
class _Target:
    """The image operand and its coordinates: `[a, {x, y}]`.

    Attributes:
        handle: Reads the handle.
        coordinates: Of x, y and z, without the layer.
        layer: Reads the layer; None if the geometry has none.

    """

    handle: Read
    coordinates: list[Read]
    layer: Read | None

    @classmethod
    def of(cls, code: CompiledInstruction, operand: Operand, geometry: Geometry, kind: PtxType) -> _Target:
        handle, given = _image(code, operand)
        items = items_of(given)
        used = geometry.layered + geometry.axes
        require(len(items) >= used, f"it has {len(items)} coordinates; {used} are required")
        layer = code.read(items[0], _U32) if geometry.layered else None
        return cls(handle, [code.read(item, kind) for item in items[geometry.layered : used]], layer)

    def layers(self, state: ExecutionState) -> Array:
        """Read the layers; int64."""
        if self.layer is None:
            return np.zeros(state.count(), np.int64)
        return state.spread(self.layer(state)).astype(np.int64)


def _image(code: CompiledInstruction, operand: Operand) -> tuple[Read, Operand]:
    """Compile the handle of `[a, coordinates]`, and return the coordinates."""
    address = code.indexed(operand)
    require(len(address.coordinates) == 1, "textures with a separate sampler (.samplerref) are not supported")
    return _handle(code, address.base), address.coordinates[0]


def _handle(code: CompiledInstruction, base: Operand) -> Read:
    if code.symbol(base):
        raise UnknownFormError(
            NO_REFERENCES,
            "Use texture objects: cudaTextureObject_t, cudaSurfaceObject_t.",
        )
    if not code.register(base):
        raise UnknownFormError("its texture or surface is not a register")
    return code.read(base, _U64)


def _views(
    state: ExecutionState, code: CompiledInstruction, handle: Read, *, sampled: bool
) -> Iterator[tuple[View, Array]]:
    """Yield each texture or surface and the executing lanes that use it, which are selected meanwhile.

    Lanes are indices into the executing ones; int64.

    Raises:
        Violation: A handle is not that of a texture (or surface).

    """
    handles, lanes = state.spread(handle(state)), state.lanes()
    for one in np.unique(handles):
        view = state.images.get(int(one)) if state.images is not None else None
        which = np.flatnonzero(handles == one)
        if view is None or (view.sampler is None) == sampled:
            raise _no_view(code, int(one), view, int(lanes[which[0]]), sampled=sampled)
        with state.selecting(lanes[which]):
            yield view, which


def _no_view(code: CompiledInstruction, handle: int, view: View | None, lane: int, *, sampled: bool) -> Violation:
    kind, other = ("texture", "surface") if sampled else ("surface", "texture")
    return Violation(
        f"{handle:#x} is not a {kind}",
        site=code.site,
        lane=lane,
        why=f"it is the handle of a {other}" if view is not None else "no texture or surface has this handle now",
        fix=f"Create a {kind} object, pass its handle, and destroy it after the kernel.",
        code="gpu.fault.bad-texture",
    )


def _fitting(state: ExecutionState, code: CompiledInstruction, image: TexelImage, geometry: Geometry) -> None:
    """Check that the image has the shape that the instruction expects."""
    same = image.layered == geometry.layered and image.cube == geometry.cube
    if same and (geometry.cube or all(size == 1 for size in image.sizes[geometry.axes : 3])):
        return
    layers = f"{image.sizes[3]} layers" if image.layered else "no layers"
    raise Violation(
        "the shape of a texture is not that of the fetch",
        site=code.site,
        lane=int(state.lanes()[0]),
        why=f"the texture has {image.sizes[:3]} texels, {layers}, and is {'' if image.cube else 'not '}a cube map",
        fix="Fetch with the function for its kind: tex1D, tex2D, tex3D, tex2DLayered, texCubemap.",
        code="gpu.fault.bad-texture",
    )


def _loader(state: ExecutionState, code: CompiledInstruction, image: TexelImage) -> Callable[[Array, int], Array]:
    unit = int(image.dtype.itemsize)
    how = LaneAccess("global", unit, 1, False, code.site)
    return lambda addresses, channel: memory_access.load(state, how, addresses + np.uint64(channel * unit))[0]


@dataclass(frozen=True)
class _Point:
    """Where lanes fetch: coordinates within an image, and its layer (int64)."""

    coordinates: list[Array]
    layer: Array

    def at(self, lanes: Array) -> _Point:
        return _Point([one[lanes] for one in self.coordinates], self.layer[lanes])


def _point(target: _Target, state: ExecutionState, geometry: Geometry, view: View) -> _Point:
    coordinates, layer = [state.spread(read(state)) for read in target.coordinates], target.layers(state)
    if not geometry.cube:
        return _Point(coordinates, layer)
    on_face, face = sampling.on_face(coordinates)
    return _Point(on_face, np.minimum(layer, view.image.sizes[3] // _FACES - 1) * _FACES + face)


def _textures(
    state: ExecutionState, code: CompiledInstruction, target: _Target, geometry: Geometry
) -> Iterator[tuple[View, Sampler, Array]]:
    """Yield each texture with its sampler and lanes, as `_views`; cube maps have coordinates from 0 to 1 on a face."""
    for view, lanes in _views(state, code, target.handle, sampled=True):
        if view.sampler is not None:
            _fitting(state, code, view.image, geometry)
            yield view, replace(view.sampler, normalized=True) if geometry.cube else view.sampler, lanes


_MIPMAPS: Final = ("level", "grad", "base")


def _tex(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    mode = modifiers.one_of(_MIPMAPS)
    geometry = _geometry(modifiers, tuple(_GEOMETRIES))
    coordinate, result = modifiers.type(), _result(modifiers)
    require(coordinate in (_F32, _S32), "its coordinates are neither .f32 nor .s32")
    require(not (geometry.cube and coordinate is _S32), "cube maps have no integer coordinates")
    written, source, *more = code.operands
    target = _Target.of(code, source, geometry, coordinate)
    write = _written(code, written, result)
    lod = _lod(code, mode, geometry, coordinate, more)

    def step(state: ExecutionState) -> None:
        found: list[Array] = [np.zeros(state.count(), np.uint32) for _ in range(4)]
        for view, sampler, lanes in _textures(state, code, target, geometry):
            point = _point(target, state, geometry, view)
            levels = None if lod is None or len(view.levels) == 1 else lod(state, view, sampler)
            texels = _fetch(state, code, (view.levels, sampler), point, levels)
            for values, texel in zip(found, texels, strict=True):
                values[lanes] = texel
        write(state, found)

    return step


def _fetch(
    state: ExecutionState,
    code: CompiledInstruction,
    texture: tuple[tuple[TexelImage, ...], Sampler],
    point: _Point,
    lod: Array | None,
) -> list[Array]:
    """Fetch four channels of raw bits (uint32), from one level of detail or between two."""
    levels, sampler = texture
    if lod is None:
        return _bits(_from_level(state, code, levels[0], sampler, point))
    first, weight = sampling.level_of(lod, sampler, len(levels))
    found: list[Array] = [np.zeros(len(first), np.uint32) for _ in range(4)]
    lanes = state.lanes()
    for level in np.unique(first):
        which = np.flatnonzero(first == level)
        with state.selecting(lanes[which]):
            low = _from_level(state, code, levels[level], sampler, point.at(which))
            if weight[which].any() and low[0].dtype.kind == "f":
                high = _from_level(state, code, levels[min(level + 1, len(levels) - 1)], sampler, point.at(which))
                low = sampling.mixed(low, high, weight[which])
        for values, texel in zip(found, _bits(low), strict=True):
            values[which] = texel
    return found


def _from_level(
    state: ExecutionState, code: CompiledInstruction, image: TexelImage, sampler: Sampler, point: _Point
) -> list[Array]:
    reader = sampling.TexelReader(image, sampler, _loader(state, code, image))
    return reader.fetch(point.coordinates, point.layer)


def _bits(channels: list[Array]) -> list[Array]:
    """Return channels as 32-bit registers: floats as they are, integers extended."""
    return [
        one.view(np.uint32)
        if one.dtype == np.float32
        else one.astype(np.int64 if one.dtype.kind == "i" else np.uint64).astype(np.uint32)
        for one in channels
    ]


def _lod(
    code: CompiledInstruction, mode: str, geometry: Geometry, coordinate: PtxType, more: Sequence[Operand]
) -> Callable[[ExecutionState, View, Sampler], Array] | None:
    """Compile the level of detail; None if the largest level is read."""
    used = {"level": 1, "grad": 2}.get(mode, 0)
    require(len(more) == used, "texel offsets and depth comparisons are not supported")
    if mode == "level":
        read = code.read(more[0], coordinate)
        return lambda state, _view, _sampler: state.spread(read(state)).astype(np.float32)
    if mode != "grad":
        return None
    require(not geometry.cube, "gradients of cube maps are not supported")
    vectors = [items_of(one) for one in more]
    reads = [[code.read(item, _F32) for item in items[: geometry.axes]] for items in vectors]
    return lambda state, view, sampler: sampling.lod_of(
        [[state.spread(read(state)) for read in one] for one in reads], view.image, sampler
    )


def _result(modifiers: Modifiers) -> PtxType:
    """Read the type and number of results."""
    if modifiers.flag("v2"):
        require(modifiers.flag("f16x2"), "two results must be .f16x2")
        return TYPES["f16x2"]
    require(modifiers.flag("v4"), "it must have four results, .v4")
    kind = modifiers.type()
    require(kind.size == _U32.size, "its results are not 32-bit")
    return TYPES["b32"]


def _written(
    code: CompiledInstruction, operand: Operand, kind: PtxType
) -> Callable[[ExecutionState, list[Array]], None]:
    """Compile the destination: takes four channels of raw bits."""
    resident = code.write(operand.second, TYPES["pred"]) if isinstance(operand, Pair) else None
    vector = operand.first if isinstance(operand, Pair) else operand
    halves = kind.name == "f16x2"
    if not isinstance(vector, Vector):
        raise UnknownFormError("its results are not a vector")
    require(len(vector.items) == (2 if halves else 4), "it has another number of results")
    writers = [code.write(item, TYPES["b32"]) for item in vector.items]

    def write(state: ExecutionState, channels: list[Array]) -> None:
        _write_all(state, writers, _packed(channels) if halves else channels)
        if resident is not None:
            resident(state, np.ones(state.count(), np.bool_))

    return write


def _write_all(state: ExecutionState, writers: list[Writer | None], values: list[Array]) -> None:
    for writer, value in zip(writers, values, strict=True):
        if writer is not None:
            writer(state, value)


def _packed(channels: list[Array]) -> list[Array]:
    """Pack float32 channels in pairs of float16."""
    halves = [one.view(np.float32).astype(np.float16).view(np.uint16).astype(np.uint32) for one in channels]
    return [halves[0] | halves[1] << np.uint32(16), halves[2] | halves[3] << np.uint32(16)]


_COMPONENTS: Final = ("r", "g", "b", "a")


def _tld4(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    channel = _COMPONENTS.index(modifiers.one_of(_COMPONENTS) or "r")
    geometry = _geometry(modifiers, ("2d", "a2d", "cube", "acube"))
    require(modifiers.type() is _F32, "its coordinates are not .f32")
    written, source, *more = code.operands
    require(not more, "texel offsets and depth comparisons are not supported")
    target = _Target.of(code, source, geometry, _F32)
    write = _written(code, written, _result(modifiers))

    def step(state: ExecutionState) -> None:
        found: list[Array] = [np.zeros(state.count(), np.uint32) for _ in range(4)]
        for view, sampler, lanes in _textures(state, code, target, geometry):
            point = _point(target, state, geometry, view)
            reader = sampling.TexelReader(view.image, sampler, _loader(state, code, view.image))
            for values, texel in zip(found, _bits(reader.gather(point.coordinates, point.layer, channel)), strict=True):
                values[lanes] = texel
        write(state, found)

    return step


_CHANNEL_TYPES: Final = {
    "s8": 0x10D7,
    "s16": 0x10D8,
    "s32": 0x10D9,
    "u8": 0x10DA,
    "u16": 0x10DB,
    "u32": 0x10DC,
    "f16": 0x10DD,
    "f32": 0x10DE,
}
_PROMOTED: Final = {"s8": 0x10D0, "s16": 0x10D1, "u8": 0x10D2, "u16": 0x10D3}
_ORDERS: Final = {1: 0x10B0, 2: 0x10B2, 4: 0x10B5}
"""OpenCL's numbers of channel types and orders, which PTX returns."""


def _channel_type(view: View) -> int:
    promoted = view.sampler is not None and view.sampler.promoted
    return (_PROMOTED if promoted else {}).get(view.image.format) or _CHANNEL_TYPES[view.image.format]


_QUERIES: Final[dict[str, Callable[[View, TexelImage], int]]] = {
    "width": lambda _view, image: image.sizes[0],
    "height": lambda _view, image: image.sizes[1],
    "depth": lambda _view, image: image.sizes[2],
    "array_size": lambda _view, image: image.sizes[3] // (_FACES if image.cube else 1),
    "channel_data_type": lambda view, _image: _channel_type(view),
    "channel_order": lambda view, _image: _ORDERS[view.image.channels],
    "normalized_coords": lambda view, _image: int(view.sampler is not None and view.sampler.normalized),
    "num_mipmap_levels": lambda view, _image: len(view.levels),
}


def _query(code: CompiledInstruction, modifiers: Modifiers, *, sampled: bool) -> Step:
    leveled = modifiers.flag("level")
    name = modifiers.one_of(tuple(_QUERIES))
    require(bool(name), "its attribute is not supported")
    modifiers.drop({"b32"})
    written, source, *more = code.operands
    write, handle = code.write(written, TYPES["b32"]), _handle(code, code.indexed(source).base)
    level = code.read(more[0], _U32) if leveled else code.read(Immediate("0", 0), _U32)

    def step(state: ExecutionState) -> None:
        answers = np.zeros(state.count(), np.uint32)
        for view, lanes in _views(state, code, handle, sampled=sampled):
            requested = np.minimum(state.spread(level(state)), len(view.levels) - 1)
            known = np.array([_QUERIES[name](view, image) for image in view.levels], np.uint32)
            answers[lanes] = known[requested]
        if write is not None:
            write(state, answers)

    return step


_BEYOND: Final = ("trap", "clamp", "zero")


@dataclass(frozen=True)
class _Surface:
    """An access to surfaces.

    Attributes:
        target: The surface and the coordinates.
        geometry: The shape that is expected.
        how: The access to global memory; its size is that of a lane's data.
        beyond: What happens beyond the edges: 'trap', 'clamp' or 'zero'.

    """

    code: CompiledInstruction
    target: _Target
    geometry: Geometry
    how: LaneAccess
    beyond: str

    def places(self, state: ExecutionState) -> Iterator[tuple[Array, Array, Array]]:
        """Yield executing lanes (indices), their addresses (uint64), and which are inside; they are selected meanwhile.

        Addresses of lanes outside are those of the nearest data inside.
        """
        for view, lanes in _views(state, self.code, self.target.handle, sampled=False):
            image = view.image
            self._check_shape(state, image)
            given = [state.spread(read(state)).astype(np.int64) for read in self.target.coordinates]
            given += [np.zeros(len(lanes), np.int64)] * (3 - len(given))
            given.append(self.target.layers(state))
            most = [image.sizes[0] * image.texel - self.how.size, *(size - 1 for size in image.sizes[1:])]
            steps = (1, *image.strides[1:])
            inside = np.ones(len(lanes), np.bool_)
            offset = np.zeros(len(lanes), np.int64)
            for place, last, step in zip(given, most, steps, strict=True):
                inside &= (place >= 0) & (place <= last)
                offset += np.clip(place, 0, max(last, 0)) * step
            if self.beyond == "trap" and not inside.all():
                self._trap(state, image, given, int(np.argmin(inside)))
            if self.beyond == "clamp":
                inside = np.full(len(lanes), most[0] >= 0)
            yield lanes, (image.address + offset).astype(np.uint64), inside

    def _check_shape(self, state: ExecutionState, image: TexelImage) -> None:
        layered = image.layered or image.cube
        if layered == self.geometry.layered and all(size == 1 for size in image.sizes[self.geometry.axes : 3]):
            return
        raise Violation(
            "the shape of a surface is not that of the access",
            site=self.code.site,
            lane=int(state.lanes()[0]),
            why=f"the surface has {image.sizes[:3]} texels and {image.sizes[3] if layered else 'no'} layers",
            fix="Access it with the function for its kind: surf1Dread, surf2Dread, surf3Dread, surf2DLayeredread.",
            code="gpu.fault.bad-texture",
        )

    def _trap(self, state: ExecutionState, image: TexelImage, given: list[Array], first: int) -> None:
        raise Violation(
            f"{'write' if self.how.write else 'read'} of {self.how.size} bytes out of bounds (surface)",
            site=self.code.site,
            lane=int(state.lanes()[first]),
            why=f"byte {given[0][first]} of row {given[1][first]}, slice {given[2][first]}, layer {given[3][first]}, "
            f"of {image.sizes[0] * image.texel} bytes, {image.sizes[1]} rows, {image.sizes[2]} slices and "
            f"{image.sizes[3]} layers",
            fix="Check the coordinates; x counts bytes: x * sizeof(element).",
            code="gpu.fault.out-of-bounds",
        )


def _surface(
    code: CompiledInstruction, modifiers: Modifiers, operand: Operand, kind: PtxType, *, write: bool
) -> _Surface:
    """Compile the surface operand."""
    geometry = _geometry(modifiers, ("1d", "2d", "3d", "a1d", "a2d"))
    beyond = modifiers.one_of(_BEYOND, "trap")
    count = {"v2": 2, "v4": 4}.get(modifiers.one_of(("v2", "v4")), 1)
    return _Surface(
        code,
        _Target.of(code, operand, geometry, _S32),
        geometry,
        LaneAccess("global", kind.size, count, write, code.site),
        beyond,
    )


def _bytewise(modifiers: Modifiers) -> None:
    """Take `.b`: accesses by byte offset."""
    require(modifiers.flag("b"), "formatted accesses to surfaces (.p) are not supported")
    modifiers.drop({"ca", "cg", "cs", "cv", "wb", "wt"})


def _items(surface: _Surface, operand: Operand) -> tuple[Operand, ...]:
    items = items_of(operand)
    require(len(items) == surface.how.count, f"it moves {surface.how.count} elements but has {len(items)} registers")
    return items


def _suld(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    _bytewise(modifiers)
    kind = modifiers.type()
    written, source = code.operands
    surface = _surface(code, modifiers, source, kind, write=False)
    writers = [code.write(item, kind) for item in _items(surface, written)]

    def step(state: ExecutionState) -> None:
        found: list[Array] = [np.zeros(state.count(), kind.dtype) for _ in writers]
        for lanes, addresses, inside in surface.places(state):
            some = np.flatnonzero(inside)
            with state.selecting(state.lanes()[some]):
                loaded = memory_access.load(state, surface.how, addresses[some]) if len(some) else []
            for values, value in zip(found, loaded, strict=False):
                values[lanes[some]] = value
        _write_all(state, writers, found)

    return step


def _sust(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    _bytewise(modifiers)
    kind = modifiers.type()
    surface = _surface(code, modifiers, code.operands[0], kind, write=True)
    readers = [code.read(item, kind) for item in _items(surface, code.operands[1])]

    def step(state: ExecutionState) -> None:
        for _lanes, addresses, inside in surface.places(state):
            some = np.flatnonzero(inside)
            with state.selecting(state.lanes()[some]):
                if len(some):
                    memory_access.store(
                        state, surface.how, addresses[some], [state.spread(read(state)) for read in readers]
                    )

    return step


_REDUCTIONS: Final[dict[str, Any]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def _sured(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    _bytewise(modifiers)
    name = modifiers.one_of(tuple(_REDUCTIONS))
    require(bool(name), "its operation is not supported")
    kind = modifiers.type()
    surface = _surface(code, modifiers, code.operands[0], kind, write=True)
    (item,) = _items(surface, code.operands[1])
    read = code.read(item, kind)

    def step(state: ExecutionState) -> None:
        for _lanes, addresses, inside in surface.places(state):
            some = np.flatnonzero(inside)
            with state.selecting(state.lanes()[some]):
                for part in memory_access.parts(state, surface.how, addresses[some]) if len(some) else ():
                    units = part.units.view(kind.dtype)
                    memory_access.fold(units, part.places, state.spread(read(state)), _REDUCTIONS[name])

    return step


STEPS: dict[str, Callable[[CompiledInstruction, Modifiers], Step]] = {
    "tex": _tex,
    "tld4": _tld4,
    "txq": lambda code, modifiers: _query(code, modifiers, sampled=True),
    "suq": lambda code, modifiers: _query(code, modifiers, sampled=False),
    "suld": _suld,
    "sust": _sust,
    "sured": _sured,
}
"""Instruction name to the function that compiles it."""
