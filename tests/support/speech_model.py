"""A small model for speech with random weights, as `WhisperPipeline` of OpenVINO GenAI reads it."""

import json
import sys
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset13 as op

sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))
import language_model

VOCABULARY = language_model.VOCABULARY
END, START, ENGLISH, GERMAN, TRANSLATE, TRANSCRIBE, NO_TIMES = range(440, 447)  # times follow
SETTINGS = {
    "begin_suppress_tokens": [END],
    "bos_token_id": END,
    "decoder_start_token_id": START,
    "eos_token_id": END,
    "is_multilingual": True,
    "lang_to_id": {"<|en|>": ENGLISH, "<|de|>": GERMAN},
    "max_initial_timestamp_index": 20,
    "max_length": 448,
    "no_timestamps_token_id": NO_TIMES,
    "pad_token_id": END,
    "prev_sot_token_id": START,
    "suppress_tokens": [END],
    "task_to_id": {"translate": TRANSLATE, "transcribe": TRANSCRIBE},
}
FEATURES = {
    "chunk_length": 30,
    "feature_size": 80,
    "hop_length": 160,
    "n_fft": 400,
    "n_samples": 480_000,
    "nb_max_frames": 3000,
    "sampling_rate": 16_000,
}


def save(folder, hidden=64, layers=2, heads=2):
    """Write encoder, decoder, tokenizer and settings, unless the folder is there; return it."""
    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    models = {"encoder_model": encoder(random, hidden), "decoder_model": decoder(random, hidden, layers, heads)}
    models |= dict(zip(("tokenizer", "detokenizer"), language_model.tokenizers(), strict=True))
    for name, model in models.items():
        ov.save_model(model, folder / f"openvino_{name}.xml", compress_to_fp16=False)
    (folder / "config.json").write_text(json.dumps({"model_type": "whisper", "vocab_size": VOCABULARY}))
    (folder / "generation_config.json").write_text(json.dumps(SETTINGS))
    (folder / "preprocessor_config.json").write_text(json.dumps(FEATURES))
    return folder


def encoder(random, hidden):
    """Two convolutions over 30 seconds of features."""
    value = given = _input("input_features", [-1, FEATURES["feature_size"], FEATURES["nb_max_frames"]], np.float32)
    for step, channels in ((1, FEATURES["feature_size"]), (2, 2 * hidden)):
        size = 2 * hidden if step == 1 else hidden
        weights = op.constant((random.standard_normal((size, channels, 3)) / 50).astype(np.float32))
        value = op.relu(op.convolution(value, weights, [step], [1], [1], [1]))
    return _model(op.transpose(value, op.constant(np.array([0, 2, 1]))), "last_hidden_state", [], [given], "encoder")


def decoder(random, hidden, layers, heads):
    """Blocks of attention with state, to which the mean of the encoder's output is added."""
    tokens = _input("input_ids", [-1, -1], np.int64)
    speech = _input("encoder_hidden_states", [-1, -1, hidden], np.float32)
    beams = _input("beam_idx", [-1], np.int32)
    shape = [op.gather(op.shape_of(tokens), op.constant([0]), op.constant(0)), op.constant([heads, 0, hidden // heads])]
    block = language_model._Block(
        hidden=hidden,
        heads=heads,
        random=random,
        angles=language_model._angles(op.multiply(tokens, op.constant(np.int64(0))), hidden // heads),
        allowed=op.constant(np.zeros((1, 1, 1, 1), np.float32)),
        beams=beams,
        empty=op.broadcast(op.constant(np.float32(0)), op.concat(shape, 0)),
    )
    value = op.gather(language_model._weights(random, VOCABULARY, hidden), tokens, op.constant(0), name="embedding")
    value = op.add(value, op.reduce_mean(speech, op.constant([1]), keep_dims=True))
    for number in range(layers):
        value = block.add(value, f"layer{number}")
    logits = language_model._linear(random, language_model._normalized(value), VOCABULARY, "logits")
    return _model(logits, "logits", block.states, [tokens, speech, beams], "decoder")


def _input(name, shape, kind):
    made = op.parameter(shape, kind, name=name)
    made.output(0).set_names({name})
    return made


def _model(value, output, states, inputs, name):
    result = op.result(value)
    result.output(0).set_names({output})
    return ov.Model([result], states, inputs, name)
