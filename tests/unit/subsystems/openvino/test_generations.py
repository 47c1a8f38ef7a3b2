"""Generations of language models, compared with what OpenVINO GenAI measures itself."""

import json
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic.errors import ResultError
from accel_magic.subsystems.openvino.tables import OpenVinoTables
from tests.support import openvino

ATTEMPTS = 3
pytestmark = pytest.mark.component

NOTEBOOKS = Path(__file__).parents[4] / "notebooks"
MODEL = f"""
import time
sys.path.insert(0, {str(NOTEBOOKS)!r})
import language_model
import openvino_genai as genai
size = globals().get("size", {{}})
kept = "-".join(["model", *map(str, size.values())])  # beside the folders of the tests, which share it
folder = str(language_model.save(path.rsplit("/", 2)[0] + "/" + kept, **size))
words = "this is what the model was for "

def measured(result):
    found = result.perf_metrics
    return dict(prompt=found.get_num_input_tokens(), tokens=found.get_num_generated_tokens(),
                first=found.get_ttft().mean, each=found.get_tpot().mean, rate=found.get_throughput().mean)
"""
GENERATED = """
def generate(pipeline, prompt=words * 8, tokens=24, **options):
    return pipeline.generate([prompt] if isinstance(prompt, str) else prompt, max_new_tokens=tokens, ignore_eos=True,
                             **options)
"""


@pytest.fixture(scope="session")
def generated(tmp_path_factory):
    """Run a script with a small language model, and return its trace and what it told."""
    if find_spec("openvino_genai") is None:
        pytest.skip("OpenVINO GenAI is not installed")

    def run(script, before=""):
        return openvino.run(tmp_path_factory.mktemp("generations"), before + MODEL + GENERATED + script)

    return run


LLM = """
pipeline = genai.LLMPipeline(folder, "CPU", **{options})
prompt = {prompt}
with accel_magic.trace("openvino") as t:
    told = [measured(generate(pipeline, prompt, **{more})) for _ in range(7)]
finish(t, told=told)
"""


WAKING_MS = 10
"""How late a thread may run on a busy machine."""


def agrees(ours, theirs, late_ms):
    """Whether the best of several times, in ms, agree to 3 %, and none is far off.

    Between an inference's end and GenAI's reading of the clock, in another thread, a busy machine may run something
    else.
    """
    ours, theirs = np.array(ours, float), np.array(theirs, float)
    excess = np.sort((np.abs(ours - theirs) - late_ms) / theirs)
    return len(excess) >= 5 and excess[1] < 0.03 and np.median(excess) < 0.5


@pytest.mark.parametrize(
    ("options", "prompt", "more"),
    [
        ("{}", "words * 60", "{}"),
        ('{"ATTENTION_BACKEND": "SDPA"}', "words * 60", "{}"),
        ('{"scheduler_config": genai.SchedulerConfig()}', "words * 60", "{}"),  # prompts in parts
        ("{}", "[words * 60, words]", "{}"),
        ("{}", "words * 60", '{"streamer": lambda text: False}'),
        ('{"draft_model": genai.draft_model(folder, "CPU")}', "words * 60", '{"num_assistant_tokens": 3}'),
    ],
    ids=["paged attention", "state", "prompts in parts", "two prompts", "streamed", "drafted"],
)
def test_tokens_and_times_are_those_that_genai_measures(generated, options, prompt, more):
    found = generated(LLM.format(options=options, prompt=prompt, more=more))
    table, told = found.result.openvino.generations, found.told["told"]
    both = len(told)

    assert len(table) == both
    assert table["model"].unique().tolist() == ["small_language_model"]
    assert table["kind"].unique().tolist() == ["LLMPipeline"]
    assert table["prompt_tokens"].tolist() == [one["prompt"] for one in told]
    assert table["generated_tokens"].tolist() == [one["tokens"] for one in told]
    assert agrees(table["first_token_ns"] / 1e6, [one["first"] for one in told], WAKING_MS)
    prompts = table["requests"].to_numpy()
    late_ms = WAKING_MS / table["inferences"].min()
    assert agrees(table["token_ns"] / 1e6 / prompts, [one["each"] for one in told], late_ms)
    assert agrees(1e3 / table["tokens_per_second"], [1e3 / one["rate"] for one in told], late_ms)
    assert (table["prefill_ns"] + table["decode_ns"] <= table["duration_ns"]).all()
    assert table["tokenizer_ns"].notna().all()


def test_prompts_in_parts_are_several_inferences(generated):
    script = LLM.format(options='{"scheduler_config": genai.SchedulerConfig()}', prompt="words * 60", more="{}")
    table = generated(script).result.openvino.generations
    parts = -(-int(table["prompt_tokens"].iloc[0]) // 256)

    assert parts > 1
    assert table["prefill_inferences"].unique().tolist() == [parts]
    assert (table["inferences"] == parts + 24 - 1).all()
    assert not table["prefix_caching"].any()


def test_drafts_are_another_models(generated):
    script = LLM.format(
        options='{"draft_model": genai.draft_model(folder, "CPU")}', prompt="words", more='{"num_assistant_tokens": 3}'
    )
    table = generated(script).result.openvino.generations

    assert table["draft_model"].unique().tolist() == ["small_language_model #2"]
    assert (table["draft_ns"] > 0).all()
    assert (table["inferences"] < 24).all()  # the drafts are right, so that one inference keeps several


def test_a_text_for_a_prompt_has_its_tokens_counted_too(generated):
    """`generate` returns only a text for it."""
    found = generated("""
pipeline = genai.LLMPipeline(folder, "CPU")
with accel_magic.trace("openvino") as t:
    texts = [pipeline.generate(words * times, max_new_tokens=8, ignore_eos=True) for times in (1, 5)]
counted = [measured(generate(pipeline, words * times, 8))["prompt"] for times in (1, 5)]
finish(t, counted=counted, kind=type(texts[0]).__name__)
""")
    table = found.result.openvino.generations

    assert found.told["kind"] == "str"
    assert table["prompt_tokens"].tolist() == found.told["counted"]
    assert table["generated_tokens"].tolist() == [8, 8]
    assert table["repeated_share"].tolist() == [0, pytest.approx(0.2, abs=0.001)]


def test_requests_of_continuous_batching_have_a_row_each(generated):
    found = generated("""
pipeline = genai.ContinuousBatchingPipeline(folder, genai.SchedulerConfig(), "CPU")
settings = genai.GenerationConfig()
settings.max_new_tokens, settings.ignore_eos = 24, True
told = []
with accel_magic.trace("openvino") as t:
    for _ in range(5):
        handles = [pipeline.add_request(number, words * (number + 1), settings) for number in range(3)]
        steps = 0
        while pipeline.has_non_finished_requests():
            pipeline.step()
            steps += 1
            if steps == 10: handles.append(pipeline.add_request(9, words, settings))
        for handle in handles:
            metrics = handle.get_perf_metrics()
            told.append(dict(prompt=metrics.get_num_input_tokens(), tokens=metrics.get_num_generated_tokens(),
                             first=metrics.get_ttft().mean, each=metrics.get_tpot().mean))
    unfinished = pipeline.add_request(1, words, settings)
    for _ in range(5): pipeline.step()
finish(t, told=told)
""")
    table = found.result.openvino.generations
    table, last = table[table["finished"]], table[~table["finished"]]
    told = found.told["told"]

    assert table["kind"].unique().tolist() == ["ContinuousBatchingPipeline"]
    assert table["prompt_tokens"].tolist() == [one["prompt"] for one in told]
    assert table["generated_tokens"].tolist() == [24] * 20
    assert agrees(table["first_token_ns"] / 1e6, [one["first"] for one in told], WAKING_MS)
    assert agrees(table["token_ns"] / 1e6, [one["each"] for one in told], WAKING_MS / 24)
    assert (table["cache_bytes"] > 0).all()
    assert last["generated_tokens"].tolist() == [5]


SPEECH = f"""
sys.path.insert(0, {str(Path(__file__).parents[4])!r})
from pathlib import Path
import openvino_genai as genai
from tests.support import speech_model
pipeline = genai.WhisperPipeline(str(speech_model.save(Path(path).parents[1] / "speech")), "CPU")
speech = random.standard_normal(16_000 * 35).astype(np.float32)

def measured(seconds, **options):
    found = pipeline.generate(speech[:16_000 * seconds].tolist(), max_new_tokens=20, **options).perf_metrics
    return dict(tokens=found.get_num_generated_tokens(), first=found.get_ttft().mean, each=found.get_tpot().mean,
                encoded=len(found.whisper_raw_metrics.encode_inference_durations))
"""


@pytest.mark.parametrize(
    ("seconds", "options", "found_first"),
    [(5, "{}", 1), (5, '{"language": "<|en|>"}', 0), (35, "{}", 1)],
    ids=["language is found", "language is given", "several parts, and their times"],
)
def test_speech_has_the_tokens_and_times_that_genai_measures_and_its_encoder_is_part_of_the_prompts(
    generated, seconds, options, found_first
):
    found = generated(f"""{SPEECH}
measured({seconds}, **{options})
with accel_magic.trace("openvino:layers") as t:
    told = [measured({seconds}, **{options}) for _ in range(5)]
finish(t, told=told)
""")
    tables, told = found.result.openvino, found.told["told"]
    table, requests = tables.generations, tables.requests

    assert table["model"].tolist() == ["decoder"] * 5
    assert table["kind"].unique().tolist() == ["WhisperPipeline"]
    assert table["generated_tokens"].tolist() == [one["tokens"] for one in told]
    assert table["prompt_tokens"].isna().all()  # GenAI counts none
    assert "in prompts" not in str(tables)
    assert agrees(table["first_token_ns"] / 1e6, [one["first"] for one in told], WAKING_MS)
    assert agrees(table["token_ns"] / 1e6, [one["each"] for one in told], WAKING_MS / table["inferences"].min())
    assert table["prefill_inferences"].tolist() == [one["encoded"] + found_first for one in told]
    for row in table.itertuples():
        own = requests[requests["start_ns"].between(row.start_ns, row.start_ns + row.duration_ns)]
        encoder = own[own["model"] == "encoder"].iloc[0]
        first = row.start_ns + row.first_token_ns
        assert row.prefill_ns == first - encoder["start_ns"]
        assert row.prefill_ns > encoder["duration_ns"]
    phases = tables.layers_by_phase.groupby("model")["phase"].unique().map(sorted).to_dict()
    assert phases == {"encoder": ["prefill"], "decoder": ["decode", "prefill"]}
    assert (tables.layers_by_phase.groupby(["model", "phase"])["share"].sum() <= 1).all()


ENCODER_AND_DECODER = """
from types import ModuleType

def module(name, **members):
    sys.modules[name] = made = ModuleType(name)
    vars(made).update(members)

def compiled(name, size):
    given = op.parameter([1, size], np.float32)
    weights = op.constant(random.random((size, size), np.float32))
    product = op.relu(op.matmul(given, weights, False, True))
    return ov.Core().compile_model(ov.Model([op.result(product)], [given], name), "CPU")

class GenerationMixin:
    def generate(self, input_ids=None, *, max_new_tokens, decoder_input_ids=None, **_):
        self.encode()
        for number in range(max_new_tokens): self.decode(number)
        return np.zeros((1, max_new_tokens + (1 if decoder_input_ids is None else decoder_input_ids.shape[1])))

class Model(GenerationMixin):
    config = ModuleType("config", None)
    config.is_encoder_decoder = True
    def __init__(self, *names):
        self.models = [compiled(name, size) for name, size in zip(names, (256, 128, 64))]
    def run(self, place):
        self.models[place](np.ones(self.models[place].inputs[0].shape, np.float32))
    def encode(self): self.run(0)
    def decode(self, number): self.run(-1 if number else 1)

class Whisper(Model):
    def generate(self, *, parts, **options):
        self.encode(); self.decode(0)  # finds the language
        for _ in range(parts): super().generate(decoder_input_ids=np.zeros((1, 4)), **options)
        return np.zeros((1, parts * options["max_new_tokens"]))

Model.__module__ = Whisper.__module__ = "optimum.intel.openvino.modeling_seq2seq"
module("transformers.generation.utils", GenerationMixin=GenerationMixin)
module("optimum.intel.openvino.modeling_seq2seq", _OVModelForWhisper=Whisper)
prompt = np.zeros((1, 17), np.int64)
"""


def test_encoders_and_decoders_without_state_and_without_layers_of_attention_have_generations(generated):
    """As Optimum Intel runs them: the plugin may fuse attention with other operations."""
    tables = generated(f"""{ENCODER_AND_DECODER}
two, three = Model("encoder", "decoder"), Model("encoder", "first", "later")
with accel_magic.trace("openvino") as t:
    for _ in range(3): two.generate(prompt, max_new_tokens=6)
    three.generate(prompt, max_new_tokens=5)
    two.generate(input_ids=prompt, max_new_tokens=1)
finish(t)
""").result.openvino
    table = tables.generations

    assert table["model"].tolist() == ["decoder"] * 3 + ["later", "decoder"]
    assert table["kind"].unique().tolist() == ["Model"]
    assert table["generated_tokens"].tolist() == table["inferences"].tolist() == [6, 6, 6, 5, 1]
    assert table["prompt_tokens"].unique().tolist() == [17]
    assert table["prefill_inferences"].unique().tolist() == [1]
    phases = tables.layers_by_phase.groupby(["model", "phase"])["executions"].max().to_dict()
    assert {key: phases[key] for key in phases if "encoder" not in key[0]} == {
        ("decoder", "prefill"): 4,
        ("decoder", "decode"): 15,
        ("first", "prefill"): 1,
        ("later", "decode"): 4,
    }
    assert {phase for model, phase in phases if "encoder" in model} == {"prefill"}
    assert tables.tokens.groupby("generation").size().tolist() == [6, 6, 6, 5, 1]


def test_a_call_within_a_call_that_drafts_is_no_part_of_its_tokens(generated):
    """As in assisted generation, where both are of one class."""
    table = generated(f"""{ENCODER_AND_DECODER}
class Outer(Model):
    def encode(self):
        drafts.generate(prompt, max_new_tokens=2)
        super().encode()
Outer.__name__, Outer.__module__ = "Model", Model.__module__
drafts, model = Model("drafting", "drafts"), Outer("encoder", "decoder")
with accel_magic.trace("openvino") as t:
    GenerationMixin.generate(model, prompt, max_new_tokens=7)
finish(t)
""").result.openvino.generations

    assert table["generated_tokens"].tolist() == [7]
    assert table["model"].tolist() == ["decoder"]


def test_a_call_that_generates_in_parts_is_one_generation(generated):
    """Optimum Intel's Whisper calls `generate` of Transformers for 30 seconds at a time."""
    tables = generated(f"""{ENCODER_AND_DECODER}
model = Whisper("encoder", "decoder")
with accel_magic.trace("openvino") as t:
    for _ in range(2): model.generate(parts=3, max_new_tokens=4)
finish(t)
""").result.openvino
    table = tables.generations

    assert table["kind"].tolist() == ["Whisper"] * 2
    assert table["generated_tokens"].tolist() == [12, 12]
    assert table["inferences"].tolist() == [13, 13]
    assert table["prefill_inferences"].tolist() == [4, 4]
    assert tables.tokens["token"].tolist() == [*range(12)] * 2
    assert table["prompt_tokens"].isna().all()


def test_another_programs_generations_are_what_follows_its_tokenizer(tmp_path):
    """Such as a server in C++: nothing of ours is in its Python."""
    if find_spec("openvino_genai") is None:
        pytest.skip("OpenVINO GenAI is not installed")
    script = tmp_path / "program.py"
    head = MODEL.replace("path.rsplit", "sys.argv[1].rsplit")
    script.write_text(
        "import json, sys\n"
        + head
        + GENERATED
        + """
pipeline = genai.LLMPipeline(folder, "CPU")
print(json.dumps([measured(generate(pipeline)) for _ in range(5)]))
"""
    )
    path = tmp_path / "trace.parquet"
    command = [
        sys.executable,
        "-m",
        "accel_magic",
        "trace",
        "--save",
        path,
        "openvino",
        "--",
        sys.executable,
        script,
        path,
    ]
    done = subprocess.run(command, env=openvino.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("[{")))
    table = accel_magic.open(path).openvino.generations

    assert table["generated_tokens"].tolist() == [24] * 5
    assert table["kind"].unique().tolist() == [""]
    assert table["prompt_tokens"].isna().all()
    assert agrees(table["token_ns"] / 1e6, [one["each"] for one in told], WAKING_MS / 24)


LOOP = """
core = ov.Core()
model = core.read_model(folder + "/openvino_model.xml")
request = core.compile_model(model, "CPU").create_infer_request()

def by_hand(prompt, tokens):
    request.reset_state()
    given, length = np.array([prompt]), 0
    for _ in range(tokens):
        length += given.shape[1]
        inputs = {"input_ids": given, "attention_mask": np.ones((1, length), np.int64),
                  "position_ids": np.arange(length - given.shape[1], length)[None], "beam_idx": np.zeros(1, np.int32)}
        logits = request.infer(inputs)[0]
        given = np.array([[int(logits[0, -1].argmax())]])
"""


def test_a_loop_of_inferences_by_hand_begins_anew_with_reset_state(generated):
    found = generated(
        LOOP
        + """
with accel_magic.trace("openvino") as t:
    for tokens in (5, 9, 3): by_hand([1, 2, 3, 4], tokens)
finish(t)
"""
    ).result.openvino

    assert found.generations["generated_tokens"].tolist() == [5, 9, 3]
    assert found.tokens["generation"].tolist() == [0] * 5 + [1] * 9 + [2] * 3
    assert found.tokens["token"].tolist() == [*range(5), *range(9), *range(3)]
    phases = found.layers_by_phase
    attention = phases[phases["type"] == "ScaledDotProductAttention"]
    assert attention.groupby("phase")["executions"].unique().map(list).to_dict() == {"prefill": [3], "decode": [14]}
    assert (phases.groupby("phase")["share"].sum() <= 1).all()
    assert (phases.groupby("phase")["share"].sum() > 0.1).all()  # the rest is around the layers, of tiny models most


def test_models_without_attention_generate_nothing(traced):
    found = traced("""
compiled = ov.Core().compile_model(network(), "CPU")
with accel_magic.trace("openvino") as t:
    for _ in range(3): compiled(np.ones((1, 3, 64, 64), np.float32))
finish(t)
""").result

    assert found.openvino.generations.empty
    assert found.openvino.tokens.empty
    assert found.openvino.layers_by_phase.empty
    with pytest.raises(ResultError, match="no generation was traced"):
        found.figure("tokens")


def test_the_summary_and_the_figure_show_generations(generated):
    found = generated(LLM.format(options="{}", prompt="words", more="{}")).result
    (line,) = [line for line in str(found.openvino).splitlines() if "generations of" in line]

    assert "7 generations of small_language_model (LLMPipeline)" in line
    assert "tokens/s" in line
    assert "168 tokens generated" in line
    bars = [renderer for renderer in found.figure("tokens").renderers if hasattr(renderer, "data_source")]
    drawn = [len(bar.data_source.data["row"]) for bar in bars]
    assert drawn == [7, 7, 7 * 23]


def test_the_live_row_counts_tokens(generated):
    told = generated("""
from types import SimpleNamespace
from accel_magic.recording.live_samples import LiveSample
from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.live_item import OpenVinoHistory
pipeline = genai.LLMPipeline(folder, "CPU")
point = SimpleNamespace(target=preset.INFERENCES)
history = OpenVinoHistory.of(SimpleNamespace(task_points=(point,)))
with accel_magic.trace("openvino") as t:
    began = time.monotonic_ns()
    for _ in range(3): generate(pipeline)
    sample = LiveSample(time.monotonic_ns() - began, np.zeros(0, np.uint64), 0, 0)
    history.add(sample)
finish(t, shown={one.label: one.text for one in history.items(sample)}, took=sample.time_ns,
       none=OpenVinoHistory.of(SimpleNamespace(task_points=())) is None)
""").told

    assert told["none"]
    assert told["shown"]["inferences"] == str(3 * (24 + 2))
    number, _, thousand = told["shown"]["tokens"].removesuffix("/s").partition(" ")
    rate = float(number) * (1000 if thousand == "k" else 1)
    assert rate == pytest.approx(3 * 24 / (told["took"] / 1e9), rel=0.01)


@pytest.mark.parametrize(
    ("rule", "planted", "mended"),
    [
        (
            "prompt-repeated",
            ("genai.SchedulerConfig()", "[words * 60 + str(number) for number in range(4)]", "{}"),
            ("genai.SchedulerConfig()", "[str(number) + words * 60 for number in range(4)]", "{}"),
        ),
        (
            "prefill-dominates",
            ("genai.SchedulerConfig()", "[words * 60] * 4", '{"tokens": 2}'),
            ("genai.SchedulerConfig()", "[words] * 4", '{"tokens": 40}'),
        ),
        (
            "detokenizer-per-token",
            # Enough of them that no pause on a busy machine is most of their time.
            ("None", "[words] * 12", '{"tokens": 32, "streamer": lambda text: False}'),
            ("None", "[words] * 4", "{}"),
        ),
    ],
)
def test_a_finding_is_there_where_it_was_planted_and_gone_where_it_was_mended(generated, rule, planted, mended):
    def is_found(scheduler, prompts, more):
        # A streamer matters where tokens are fast.
        size = "size = {'hidden': 64, 'layers': 1}\n" if rule == "detokenizer-per-token" else ""
        script = f"""
scheduler = {scheduler}
pipeline = genai.LLMPipeline(folder, "CPU", **({{"scheduler_config": scheduler}} if scheduler else {{}}))
generate(pipeline, words, 2)
with accel_magic.trace("openvino") as t:
    for prompt in {prompts}: generate(pipeline, prompt, **{more})
finish(t)
"""
        found = generated(script, size).result.openvino.findings
        assert rule in found.checked
        return rule in found.ids or (rule == "prefill-dominates" and "prompt-repeated" in found.ids)

    # On a busy machine, other things can take more time than what was planted.
    assert any(is_found(*planted) for _ in range(ATTEMPTS))
    assert not is_found(*mended)


def test_a_first_answer_that_is_late_is_found(generated):
    found = generated("""
pipeline, traces = genai.LLMPipeline(folder, "CPU"), []
for _ in range(8):
    with accel_magic.trace("openvino") as t:
        for _ in range(5): generate(pipeline, words * 9, 4)
    traces.append(t.result.openvino.findings.ids)
finish(t, traces=traces)
""")
    cold, *warm = found.told["traces"]

    assert "first-prefill" in cold
    assert any("first-prefill" not in ids for ids in warm)  # a busy machine may delay any answer
    assert "first-inference" not in cold  # a prompt and a token are not compared


def test_prompts_of_new_lengths_are_found(generated):
    script = """
pipeline = genai.LLMPipeline(folder, "CPU", scheduler_config=genai.SchedulerConfig())
with accel_magic.trace("openvino") as t:
    for number in {lengths}: generate(pipeline, "x" * number, 2)
finish(t)
"""
    size = "size = {'hidden': 64, 'layers': 1}\n"
    different, same = (
        generated(script.format(lengths=lengths), size).result.openvino for lengths in ("range(20, 60, 5)", "[40] * 8")
    )

    assert "prompt-lengths" in different.findings.ids
    assert not {"prompt-lengths", "primitives-recreated"} & set(same.findings.ids)
    assert "primitives-recreated" not in different.findings.ids


def with_speed(openvino, bytes_per_s):
    """The findings as if the memory had been measured at this speed."""
    recording = openvino.recording
    machine = {**recording.machine, "memory_bytes_per_s": bytes_per_s}
    return OpenVinoTables(replace(recording, machine=machine), openvino.trace.events).findings


def test_decoding_that_reads_many_weights_is_bound_by_memory(generated):
    """Weights of 180 MB, which no cache of a small machine holds, and of 12 MB."""
    script = """
pipeline = genai.LLMPipeline(folder, "CPU")
with accel_magic.trace("openvino:layers") as t:
    for _ in range(3): generate(pipeline, words, 8)
finish(t)
"""
    large = generated(script, "size = {'hidden': 1024, 'layers': 4, 'heads': 8}\n").result.openvino
    small = generated(script).result.openvino

    weights = float(large.models["weights_bytes"].max())
    speed = float(large.recording.machine["memory_bytes_per_s"])
    reached = weights / (large.tokens.loc[large.tokens["token"] > 0].eval("end_ns - start_ns").median() / 1e9)
    assert weights > 150e6
    assert ("decode-memory-bound" in large.findings.ids) == (0.5 < reached / speed <= 1.2)
    assert ("decode-memory-bound" in large.findings.checked) == (reached / speed <= 1.2)
    assert reached / speed > 0.1
    busy = with_speed(large, f"{reached / 3:.3g}")
    assert "decode-memory-bound" not in {*busy.ids, *busy.checked}
    assert "the machine was busy" in str(busy)
    assert "decode-memory-bound" in with_speed(large, f"{reached * 1.5:.3g}").ids
    assert "decode-memory-bound" not in small.findings.ids
    assert "decode-memory-bound" in small.findings.checked
