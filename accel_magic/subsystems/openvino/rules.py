"""What to look for in a trace of OpenVINO: the limits with their sources, and the texts of the findings.

Limits are shares of the trace's own times, so they apply to any model and machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.findings import Rule
from accel_magic.subsystems.openvino import checks, generation_checks, shape_checks, speed_checks
from accel_magic.subsystems.openvino.checks import Needs
from accel_magic.subsystems.openvino.task_frames import CREATED, INFERENCE, LAYER, LOOP, STEP

if TYPE_CHECKING:
    from accel_magic.subsystems.openvino.checks import OpenVinoData

RULES: Final[tuple[Rule[OpenVinoData], ...]] = (
    Rule(
        "openvino.nothing-traced",
        "warning",
        "OpenVINO reported no task",
        "Either nothing ran on OpenVINO, or its libraries were loaded before the extension.",
        "Restart the Jupyter kernel and run `%load_ext accel_magic` before OpenVINO compiles a model.",
        check=checks.nothing_traced,
    ),
    Rule(
        "openvino.events-lost",
        "warning",
        "{lost:,.0f} of {tasks:,.0f} tasks were counted but not recorded",
        "Executions, sums and quantiles of layers are exact; requests, types, primitives and threads are incomplete.",
        "Raise `--buffer` or `--max-events`, trace fewer inferences, or only `openvino:layers`.",
        check=checks.events_lost,
    ),
    Rule(
        "openvino.reorders",
        "warning",
        "{reorders_share:share} of a typical inference converts layouts or precisions ({layers:.0f} nodes)",
        "The plugin inserts these nodes where neighboring layers, or the model's inputs and outputs, disagree about "
        "the layout or precision of a tensor. They compute nothing.",
        "Set the input's layout and precision with `PrePostProcessor`, avoid operations that need a plain layout "
        "between convolutions (reshape, transpose), and compare `INFERENCE_PRECISION_HINT` f32 and bf16.",
        threshold=0.1,
        unit="share of a typical inference, by the medians of its layers",
        source="a tenth of an inference is the smallest gain that is worth a change to a model",
        check=checks.reorders,
        needs=Needs((INFERENCE, LAYER)),
    ),
    Rule(
        "openvino.layer-dominates",
        "note",
        "one of {layers:.0f} layers takes {share:share} of a typical inference: {name}",
        "Changes to other layers cannot make inferences much faster.",
        "Look at this layer first: its type, shape and precision, and its primitive in `t.openvino.layers`.",
        threshold=0.5,
        unit="share of a typical inference, by the medians of its layers",
        source="half: even if all other layers took no time, inferences would be at most twice as fast",
        check=checks.layer_dominates,
        needs=Needs((INFERENCE, LAYER)),
    ),
    Rule(
        "openvino.slow-implementation",
        "warning",
        "{share:share} of a typical inference is spent in {layers:layer|layers} with a reference implementation: "
        "{name}",
        "The plugin has no optimized code for their type, precision or layout, and uses plain loops or, for operations "
        "of extensions, their own code.",
        "Replace the operation by others that do the same, or change its precision; "
        "`t.openvino.layers['implementation']` shows what each layer uses.",
        threshold=0.1,
        unit="share of a typical inference, by the medians of its layers, in those that take twice what their "
        "operations and bytes need",
        source="a tenth of an inference is the smallest gain that is worth a change to a model",
        check=checks.slow_implementation,
        needs=checks.lacks_implementations,
    ),
    Rule(
        "openvino.far-below-peak",
        "warning",
        "{name} ({type}) takes {p10_ns:time}, {ratio:.0f} times what its operations and bytes need; such layers take "
        "{share:share} of a typical inference",
        "Neither the processors nor the memory limit it: its implementation does not suit its shape, such as few "
        "channels or many tiny matrices.",
        "Express it by other operations or in another shape: several channels, one large product instead of many small "
        "ones; compare `flops_per_s` and `bytes_per_s` in `t.openvino.layers` before and after.",
        threshold=10.0,
        unit="times the longer of its operations at the measured speed of the processors and its bytes at that of the "
        "memory, for a layer of at least 100 us and a tenth of the inference time",
        source="layers of the networks of rapidocr, silero-vad and magika with that much time take 1 to 4 times",
        limits={"least_share": 0.1, "least_ns": 100_000.0},
        check=speed_checks.far_below_peak,
        needs=speed_checks.lacks_work,
    ),
    Rule(
        "openvino.single-precision",
        "note",
        "{share:share} of a typical inference computes in f32 ({layers:layer|layers}), and the processors have units "
        "for {units}",
        "The processors limit these layers, and compute several times as much with smaller numbers.",
        "{advice}",
        threshold=0.5,
        unit="share of a typical inference, by the medians of its layers, in those that the processors limit and not "
        "the memory",
        source="half: with twice the speed in these layers, inferences take three quarters of the time at most",
        check=speed_checks.single_precision,
        needs=speed_checks.lacks_units,
    ),
    Rule(
        "openvino.fewer-threads",
        "warning",
        "{model} has {threads:thread|threads} on {cores:.0f} cores, and nothing else runs",
        "One inference at a time uses as many processors as its model has threads; the others are idle.",
        "Leave `INFERENCE_NUM_THREADS` at its default, or set it to the number of cores; to use the cores with several "
        "inferences instead, compile with `PERFORMANCE_HINT` THROUGHPUT and keep requests in flight.",
        threshold=0.75,
        unit="threads as a share of the cores, where one inference runs at a time and takes half of the time, most of "
        "it in layers of at least 100 us",
        source="a quarter of the cores idle; shorter layers gain little from more threads",
        limits={"least_share": 0.5, "least_ns": 100_000.0},
        check=speed_checks.fewer_threads,
        needs=speed_checks.lacks_cores,
    ),
    Rule(
        "openvino.first-inference",
        "note",
        "the first inference of {model} took {ratio:.1f} times as long as the later ones",
        "It allocates memory, touches weights for the first time and creates primitives.",
        "Run one inference before you measure, and before users wait for the first answer.",
        threshold=1.3,
        unit="times the median of the later inferences",
        source="convolutional networks on the CPU: 1.5 to 2",
        check=checks.first_inference,
        needs=Needs((INFERENCE, CREATED)),
    ),
    Rule(
        "openvino.small-layers",
        "warning",
        "{outside_share:share} of the inference time passes between {layers:.0f} layers of {layer_ns:time}",
        "The layers are so small that calling and scheduling them takes a considerable part of the time.",
        "{advice}",
        threshold=0.2,
        unit="share of the time of an inference with at least 20 layers",
        source="a fifth; in networks with layers of 20 us it is a few percent",
        check=checks.small_layers,
        needs=Needs((INFERENCE, LAYER)),
        explained_by=("shapes-change", "primitives-recreated", "stream-wait"),
    ),
    Rule(
        "openvino.outside-layers",
        "warning",
        "{outside_share:share} of the inference time is outside of layers",
        "The plugin prepares layers for a new shape, copies inputs and outputs, or waits, around the layers.",
        "Use few fixed shapes (`model.reshape(...)`, padded inputs), and tensors that OpenVINO can use without a copy "
        "(`ov.Tensor(array, shared_memory=True)`, `infer(..., share_inputs=True)`).",
        threshold=0.3,
        unit="share of the time of an inference, and at least 100 us of it",
        source="a third: in networks whose inputs are not copied it is a few percent",
        limits={"least_ns": 100_000.0},
        explained_by=("small-layers", "shapes-change", "primitives-recreated", "stream-wait"),
        check=checks.outside_layers,
        needs=Needs((INFERENCE, LAYER)),
    ),
    Rule(
        "openvino.primitives-recreated",
        "warning",
        "oneDNN primitives were created in {inferences:.0f} of {all_inferences:.0f} inferences after the first",
        "The shape of an input changed, so layers were prepared again, which took {created_ns:time}.",
        "Use static shapes, pad inputs to a few sizes, or compile one model per size.",
        threshold=0.05,
        unit="share of the inferences after the first",
        source="one in twenty: a program with static shapes creates none",
        check=checks.primitives_recreated,
        needs=Needs((INFERENCE, CREATED)),
        explained_by=("shapes-change",),
    ),
    Rule(
        "openvino.shapes-change",
        "warning",
        "{new:.0f} of {inferences:.0f} inferences of {model} had inputs of a new shape, which took {spent_ns:time} "
        "more: {share:share} of the time of its inferences",
        "Layers are prepared again for each shape that was not seen before: memory, primitives, the code of kernels.",
        "Pad inputs to a few sizes, compile one model per size, or run each size once before users wait for it; "
        '`t.openvino.requests.groupby("shapes")["duration_ns"].median()` compares them.',
        threshold=0.05,
        unit="share of the time of a model's inferences, by which the first inference of each shape takes longer than "
        "later ones of that shape",
        source="one twentieth; a program that has seen its shapes pays nothing",
        check=shape_checks.shapes_change,
        needs=shape_checks.lacks_shapes,
    ),
    Rule(
        "openvino.batch-of-one",
        "note",
        "a loop calls {model} {inferences:,.0f} times with one item each, though its inputs can have several",
        "Each call reads the weights again, and pays for starting the inference and each of its layers.",
        "If the items are known together, stack some of them, such as 8 or 32, along the first dimension of the "
        "inputs, and compare the time per item; if each must be answered when it comes, this is right as it is.",
        threshold=20.0,
        unit="calls from one thread, each as soon as the one before has returned, of which most have the same shapes, "
        "and the processors limit less than half of their time",
        source="fewer are not a loop",
        check=shape_checks.batch_of_one,
        needs=shape_checks.lacks_shapes,
    ),
    Rule(
        "openvino.compiled-in-trace",
        "note",
        "compiling models took {share:share} of the trace ({models:call|calls})",
        "Each start of the program pays this again, unless the compiled model is cached.",
        "Set `CACHE_DIR`, so that later starts load the compiled model; compile once, and keep the compiled model or "
        "the pipeline.",
        threshold=0.2,
        unit="share of the trace",
        source="a fifth of the traced time",
        check=checks.compiled_in_trace,
        explained_by=("compiled-again",),
    ),
    Rule(
        "openvino.compiled-again",
        "warning",
        "{model} was compiled {times:.0f} times in this trace, which took {spent_ns:time}",
        "Each compilation optimizes the model anew and holds its weights once more.",
        "Call `compile_model` once, and keep the compiled model, or its requests; for another shape, give the model a "
        "dynamic one.",
        threshold=2.0,
        unit="compilations with the same name, file and inputs",
        source="a program needs one",
        check=checks.compiled_again,
    ),
    Rule(
        "openvino.stream-wait",
        "warning",
        "requests of {model} wait for a stream: {callers:.0f} at once, {streams:stream|streams}; "
        "{queue_share:share} of their latency",
        "Each stream runs one inference at a time; the others wait until it is free.",
        "{more} Have `OPTIMAL_NUMBER_OF_INFER_REQUESTS` requests in flight; if the latency of one matters more, send "
        "fewer at once.",
        threshold=0.25,
        unit="share of the latency of a model's requests",
        source="a quarter: less is the unevenness of a load that the streams can carry",
        check=checks.stream_wait,
        needs=Needs((INFERENCE, LAYER)),
    ),
    Rule(
        "openvino.streams-idle",
        "warning",
        "{model} has {streams:stream|streams}, and {used:.0f} of them worked at once",
        "Streams share the processors: with one request at a time, the threads of all others are idle.",
        "With one caller at a time, compile with `PERFORMANCE_HINT` LATENCY; to use the streams, keep {optimal:.0f} "
        "requests in flight with `start_async` or `AsyncInferQueue`.",
        threshold=0.5,
        unit="streams that worked at once, at most, as a share of the streams",
        source="half of the processors idle",
        check=checks.streams_idle,
        needs=Needs((INFERENCE, LAYER)),
    ),
    Rule(
        "openvino.inputs-copied",
        "warning",
        "{copy_share:share} of the time of calls of {model} copies or converts inputs and outputs, before and after "
        "the inference",
        "The Python API copies each input into a tensor of the request unless it may share the memory, and converts "
        "arrays of another type or layout.",
        "`infer(..., share_inputs=True, share_outputs=True)`, or call the compiled model itself, which shares inputs; "
        "pass contiguous arrays of the input's own type, or fill `request.get_input_tensor().data` in place.",
        threshold=0.2,
        unit="share of the time of the calls, and at least 300 us of each",
        source="a fifth; a call that copies nothing takes 10 to 50 us more than its inference",
        check=checks.inputs_copied,
        needs=checks.lacks_calls,
        limits={"least_ns": 300_000.0},
    ),
    Rule(
        "openvino.first-prefill",
        "note",
        "the first answer of {model} began after {first_ns:time}, later ones after {later_ns:time}",
        "The first prompt allocates memory, touches the weights for the first time and creates primitives; later ones "
        "may also begin like it, and GenAI keeps the beginnings of prompts.",
        "Generate one token for a short prompt before users wait for the first answer, and do not measure it.",
        threshold=2.0,
        unit="times the median time to the first token of later generations, of at least three, and 10 ms more",
        source="a small Llama on the CPU: 5 to 15; the first of a trace of a model that is warm takes 2 ms more",
        limits={"least_ns": 10_000_000.0},
        check=generation_checks.first_prefill,
        needs=generation_checks.lacks_generations,
    ),
    Rule(
        "openvino.decode-memory-bound",
        "note",
        "each token of {model} reads {weights_gb:.2f} GB of weights, at {reached_gb:.1f} GB/s: {share:share} of what "
        "this machine's memory delivers",
        "Making one token at a time takes as long as reading the weights, however fast the processors are.",
        "Compress the weights (int8 or int4, `optimum-cli export openvino --weight-format int8`), serve several "
        "prompts at once, which read the weights together, or use speculative decoding.",
        threshold=0.5,
        unit="share of the bandwidth that was measured after the trace, by reading memory with all processors",
        source="half: reading weights takes most of the time, even if nothing else overlaps with it",
        limits={"least_bytes": 64e6},
        check=generation_checks.decode_bound,
        needs=generation_checks.lacks_weights,
    ),
    Rule(
        "openvino.prompt-repeated",
        "warning",
        "{repeated_share:share} of the prompts of {model} repeat the one before, and are computed again: "
        "{spent_ns:time}",
        "The pipeline was told to keep nothing of earlier prompts, so it computes their common beginning each time.",
        "Set `SchedulerConfig.enable_prefix_caching = True`, or leave out the `SchedulerConfig`; for conversations, "
        "pass a `ChatHistory`. Begin prompts with what they have in common.",
        threshold=0.1,
        unit="share of the time of generations, by the prompts' characters",
        source="a tenth is the smallest gain that is worth a change",
        check=generation_checks.prompt_repeated,
        needs=generation_checks.lacks_prompts,
    ),
    Rule(
        "openvino.prefill-dominates",
        "note",
        "prompts of {prompt:,.0f} tokens take {share:share} of the time of generations of {model}, which make "
        "{generated:,.0f} tokens",
        "Making tokens faster cannot make answers much faster.",
        "Shorten the prompts: fewer examples, shorter documents, only the passages that matter; compute common "
        "beginnings once (`enable_prefix_caching`).",
        threshold=0.5,
        unit="share of the time of generations after the first",
        source="half: even if tokens took no time, answers would be at most twice as fast",
        check=generation_checks.prefill_dominates,
        needs=generation_checks.lacks_generations,
        explained_by=("prompt-repeated",),
    ),
    Rule(
        "openvino.detokenizer-per-token",
        "note",
        "the detokenizer of {model} ran {runs:,.0f} times for {tokens:,.0f} tokens, {share:share} of the time",
        "A streamer that gets text has it made for each token, beside the model, on the same processors.",
        "Make text for several tokens at once: a `StreamerBase` of your own that decodes when a word or line ends; "
        "without a streamer, text is made once.",
        threshold=0.05,
        unit="share of the time of generations, where it ran for at least half of the tokens",
        source="one twentieth; with a large model it is far less",
        limits={"per_token": 0.5},
        check=generation_checks.detokenized_often,
        needs=generation_checks.lacks_generations,
    ),
    Rule(
        "openvino.prompt-lengths",
        "note",
        "new primitives were created in {generations:.0f} of {all_generations:.0f} generations of {model} after the "
        "first: {share:share} of the time to their first tokens",
        "Layers are prepared again for each length of a prompt that was not seen before.",
        "Pad prompts to a few lengths, or limit `SchedulerConfig.max_num_batched_tokens`, so that long prompts are "
        "computed in parts of equal size; run each length once before users wait for it.",
        threshold=0.02,
        unit="share of the time to the first token, of at least two generations after the first",
        source="a small Llama on the CPU: 4 to 7 %; prompts of lengths that it has seen create none",
        check=generation_checks.prompt_lengths,
        needs=generation_checks.lacks_generations,
    ),
    Rule(
        "openvino.device-idle",
        "note",
        "between two inferences, none runs for {idle_share:share} of the time",
        "The program waits for each result before it starts the next inference, and does other work in between.",
        "{overlap}",
        threshold=0.5,
        unit="share of the typical time from one inference to the next",
        source="half: overlapping both could then double the throughput",
        check=checks.device_idle,
        needs=Needs((INFERENCE,)),
    ),
    Rule(
        "openvino.too-many-threads",
        "warning",
        "up to {threads:.0f} threads work at once, on {cpus:.0f} CPUs",
        "They take turns, and each waits for the slowest.",
        "Limit the threads of all compiled models together to the number of CPUs (`INFERENCE_NUM_THREADS`, "
        "`NUM_STREAMS`); in a container, OpenVINO may see the host's CPUs.",
        threshold=0.1,
        unit="share of the time, from the first inference to the last, with more working threads than CPUs",
        source="a tenth",
        check=checks.too_many_threads,
        needs=Needs((INFERENCE, LOOP)),
    ),
    Rule(
        "openvino.first-touch",
        "warning",
        "{faults:,.0f} page faults per inference: {mib:,.1f} MiB of memory are used for the first time in each",
        "Memory is allocated for an inference and returned to the kernel afterwards, so the next one gets pages that "
        "the kernel has to find and clear first: about 1 us per page of 4 KiB.",
        "Keep one inference request (`compiled.create_infer_request()`) and call it repeatedly, with inputs and "
        "outputs in the same tensors; avoid shapes that grow with each inference.",
        threshold=0.05,
        unit="share of the time of an inference after the first, at 1 us per page fault",
        source="0.5 to 2 us per fault were measured; 5 % is less than the variation between inferences",
        check=checks.first_touch,
        needs=checks.lacks_faults,
    ),
    Rule(
        "openvino.npu-host-copies",
        "warning",
        "{copy_share:share} of the host's time in inferences on the NPU passes before submitting and after waiting",
        "OpenVINO copies tensors that are in ordinary memory to and from memory of the NPU, on the host's CPU.",
        "Pass less, such as images as u8 that the NPU converts (`PrePostProcessor`), or create tensors in the NPU's "
        "memory once and fill them: `core.get_default_context('NPU').create_host_tensor(type, shape)`.",
        threshold=0.4,
        unit="share of the time of inferences on the NPU, without waiting for it",
        source="two fifths: with small tensors, submitting takes most of that time",
        check=checks.npu_host_copies,
        needs=Needs((STEP,)),
    ),
    Rule(
        "openvino.npu-fallback",
        "warning",
        "{inferences:,.0f} inferences ran on the CPU beside {npu_inferences:,.0f} on the NPU",
        "HETERO gives operations that the NPU's compiler rejects to the CPU, as models of their own; AUTO uses the CPU "
        "until the NPU has compiled the model.",
        "`core.query_model(model, 'NPU')` names what the NPU accepts; replace the other operations. With AUTO, set "
        "`ENABLE_STARTUP_FALLBACK` to False, or compile for the NPU directly.",
        threshold=0.05,
        unit="share of the inferences",
        source="one in twenty: less is not worth a change to a model",
        check=checks.npu_fallback,
        needs=Needs((STEP,)),
    ),
    Rule(
        "openvino.workers-spin",
        "note",
        "worker threads called sched_yield {per_inference:,.0f} times per inference",
        "TBB's workers look for work in a loop before they sleep, although more threads than there are CPUs have work: "
        "they take CPU time from these.",
        "Use fewer threads (`INFERENCE_NUM_THREADS`), or asynchronous requests that keep the workers busy.",
        threshold=20.0,
        unit="calls per inference, where more threads work at once than there are CPUs for a tenth of the time",
        source="workers that find work at once call it a few times; on CPUs that nobody else wants, they cost nothing",
        check=checks.workers_spin,
        needs=checks.lacks_yields,
        limits={"crowded_share": 0.1},
    ),
)
