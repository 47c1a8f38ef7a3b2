"""A small language model with random weights, as OpenVINO GenAI's pipelines read it, and its tokenizer.

What it writes makes no sense; it takes the steps of a large one: attention over a cache of keys and values, one token
at a time. Needs the package `openvino-genai`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset13 as op

VOCABULARY = 512
_WORDS = " the of and to in is that for it with as was on be at by this have from or one had not but what all were "


def save(folder: str | Path, *, hidden: int = 256, layers: int = 4, heads: int = 4, seed: int = 0) -> Path:
    """Write the model, its tokenizer and its settings to a folder, unless it has them; return the folder."""
    place = Path(folder)
    if not (place / "openvino_detokenizer.xml").exists():
        place.mkdir(parents=True, exist_ok=True)
        model = decoder(hidden, layers, heads, np.random.default_rng(seed))
        ov.save_model(model, place / "openvino_model.xml", compress_to_fp16=False)
        (place / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": VOCABULARY}))
        settings = {"bos_token_id": 1, "eos_token_id": 0, "pad_token_id": 0, "max_new_tokens": 32}
        (place / "generation_config.json").write_text(json.dumps(settings))
        for each, name in zip(tokenizers(), ("tokenizer", "detokenizer"), strict=True):
            ov.save_model(each, place / f"openvino_{name}.xml")
    return place


def tokenizers() -> tuple[ov.Model, ov.Model]:
    """A tokenizer that knows all bytes and some words, and its detokenizer."""
    from openvino_tokenizers import build_rwkv_tokenizer

    texts = [f" {word}" for word in _WORDS.split()]
    known = [b"<end>", *(bytes([byte]) for byte in range(1, 256)), *(text.encode() for text in texts)]
    known += [f"<{number}>".encode() for number in range(VOCABULARY - len(known))]
    tokenizer, detokenizer = build_rwkv_tokenizer(
        [f"{number} {each!r} {len(each)}" for number, each in enumerate(known)]
    )
    mask = op.convert(
        op.not_equal(tokenizer.outputs[0].node.input_value(0), op.constant(np.int64(0))), "i64"
    )  # 0 fills up short prompts
    mask.output(0).set_names({"attention_mask"})
    tokenizer.add_outputs([mask.output(0)])
    return tokenizer, detokenizer


def decoder(hidden: int, layers: int, heads: int, random: np.random.Generator) -> ov.Model:
    """A decoder with `layers` blocks of attention, each with a gated network of twice the size."""
    tokens, mask, positions = (_input(name) for name in ("input_ids", "attention_mask", "position_ids"))
    beams = _input("beam_idx", rank=1)
    shape = op.concat([_length(tokens, 0), _numbers(heads), _numbers(0), _numbers(hidden // heads)], 0)
    block = _Block(
        hidden=hidden,
        heads=heads,
        random=random,
        angles=_angles(positions, hidden // heads),
        allowed=_allowed(tokens, mask),
        beams=beams,
        empty=op.broadcast(op.constant(np.float32(0)), shape),
    )
    value = op.gather(_weights(random, VOCABULARY, hidden), tokens, _number(0), name="embedding")
    for number in range(layers):
        value = block.add(value, f"layer{number}")
    result = op.result(_linear(random, _normalized(value), VOCABULARY, "logits"))
    result.output(0).set_names({"logits"})
    return ov.Model([result], block.states, [tokens, mask, positions, beams], "small_language_model")


@dataclass
class _Block:
    """Makes blocks of attention. What all of them share is made once."""

    hidden: int
    heads: int
    random: np.random.Generator
    angles: tuple[ov.Node, ov.Node]
    allowed: ov.Node
    beams: ov.Node
    empty: ov.Node
    states: list[ov.Node] = field(default_factory=list)

    def add(self, value: ov.Node, name: str) -> ov.Node:
        """Add a block after `value`."""
        given, hidden = _normalized(value), self.hidden
        query, key, own = (self._by_head(given, f"{name}.{part}") for part in ("query", "key", "value"))
        keys, values = self._kept(self._turned(key), f"{name}.keys"), self._kept(own, f"{name}.values")
        found = op.scaled_dot_product_attention(
            self._turned(query), keys, values, self.allowed, name=f"{name}.attention"
        )
        joined = op.reshape(op.transpose(found, _numbers(0, 2, 1, 3)), _numbers(0, 0, hidden), True)
        value = op.add(value, _linear(self.random, joined, hidden, f"{name}.output"))
        given = _normalized(value)
        gate = op.swish(_linear(self.random, given, 2 * hidden, f"{name}.gate"))
        wide = op.multiply(gate, _linear(self.random, given, 2 * hidden, f"{name}.up"))
        return op.add(value, _linear(self.random, wide, hidden, f"{name}.down"))

    def _by_head(self, value: ov.Node, name: str) -> ov.Node:
        whole = _linear(self.random, value, self.hidden, name)
        return op.transpose(
            op.reshape(whole, _numbers(0, 0, self.heads, self.hidden // self.heads), True), _numbers(0, 2, 1, 3)
        )

    def _turned(self, value: ov.Node) -> ov.Node:
        """Turned by angles that depend on the position."""
        first, second = op.split(value, _number(3), 2).outputs()
        cosine, sine = self.angles
        return op.add(op.multiply(value, cosine), op.multiply(op.concat([op.negative(second), first], 3), sine))

    def _kept(self, value: ov.Node, name: str) -> ov.Node:
        """What was kept of earlier tokens, with this; kept for later ones."""
        about = ov.op.util.VariableInfo()
        about.data_shape = ov.PartialShape([-1, self.heads, -1, self.hidden // self.heads])
        about.data_type, about.variable_id = ov.Type.f32, name
        variable = ov.op.util.Variable(about)
        past = op.gather(ov.opset6.read_value(self.empty, variable), self.beams, _number(0))
        every = op.concat([past, value], 2)
        self.states.append(ov.opset6.assign(every, variable))
        return every


def _input(name: str, rank: int = 2) -> ov.Node:
    made = op.parameter([-1] * rank, np.int64 if rank > 1 else np.int32, name=name)
    made.output(0).set_names({name})
    return made


def _number(value: int) -> ov.Node:
    return op.constant(np.int64(value))


def _numbers(*values: int) -> ov.Node:
    return op.constant(np.array(values, np.int64))


def _length(value: ov.Node, axis: int) -> ov.Node:
    """Length of an axis, as a tensor of one element."""
    return op.gather(op.shape_of(value), _numbers(axis), _number(0))


def _weights(random: np.random.Generator, *shape: int) -> ov.Node:
    return op.constant((random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32))


def _linear(random: np.random.Generator, value: ov.Node, size: int, name: str) -> ov.Node:
    before = value.get_output_partial_shape(0)[-1].get_length()
    return op.matmul(value, _weights(random, size, before), False, True, name=name)


def _normalized(value: ov.Node) -> ov.Node:
    mean = op.reduce_mean(op.power(value, op.constant(np.float32(2))), _numbers(-1), True)
    deviation = op.sqrt(op.add(mean, op.constant(np.float32(1e-5))))
    return op.multiply(value, op.divide(op.constant(np.float32(1)), deviation))


def _angles(positions: ov.Node, size: int) -> tuple[ov.Node, ov.Node]:
    """Cosine and sine of each position's angles."""
    frequencies = (1e4 ** -(np.arange(size // 2) * 2 / size)).astype(np.float32).reshape(1, 1, -1)
    half = op.multiply(op.unsqueeze(op.convert(positions, "f32"), _numbers(2)), op.constant(frequencies))
    angles = op.unsqueeze(op.concat([half, half], 2), _numbers(1))
    return op.cos(angles), op.sin(angles)


def _allowed(tokens: ov.Node, mask: ov.Node) -> ov.Node:
    """0 where a token may look at another: one before it that is no filling; else a very small number."""
    length, whole = (op.squeeze(_length(value, 1), _numbers(0)) for value in (tokens, mask))
    columns = op.unsqueeze(op.range(_number(0), whole, _number(1), "i64"), _numbers(0))
    rows = op.add(op.range(_number(0), length, _number(1), "i64"), op.subtract(whole, length))
    before = op.less_equal(columns, op.unsqueeze(rows, _numbers(1)))
    real = op.unsqueeze(op.convert(mask, "boolean"), _numbers(1, 2))
    seen = op.logical_and(op.unsqueeze(before, _numbers(0, 1)), real)
    return op.select(seen, op.constant(np.float32(0)), op.constant(np.float32(-3e38)))
