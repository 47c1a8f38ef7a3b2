"""Probes, filters and columns of any text: a typed error, or C that has only what accel_magic writes itself."""

import random
import string

import msgspec
import pytest

from accel_magic.errors import AccelMagicError
from accel_magic.kernel.attach.plan_source import generate
from accel_magic.kernel.bcc import compile_server, own_text
from accel_magic.probes.plan import TraceRequest
from tests.support import callers, thorough
from tests.support.kernel_objects import kernel_objects
from tests.support.plans import make_plan

GETPPID = "tracepoint:syscalls:sys_enter_getppid"
FOREIGN = "zQ9foreign"
TEMPLATES = {file.name for file in compile_server.TEMPLATES.iterdir()}
PIECES = [
    *string.punctuation,
    *("\n", "\r", "\t", "\v", "\f", "\\\n", "\0", "\x1b", "\u2028", "\u00a0", "\uff1d", "\ud800", "\u0430"),
    *(
        "??=",
        "??/",
        "??'",
        "??(",
        "??!",
        "<:",
        "%:",
        "%:%:",
        "/*",
        "*/",
        "//",
        "#include",
        "#define",
        "__asm__",
        "_Pragma",
    ),
    *("BPF_HASH(x)", "bpf_trace_printk", "u64", "ctx", "AM_SCOPE", "am_decide", "return 0;", '"', "'", "''"),
    *(
        "pid",
        "tid",
        "comm",
        "cpu",
        "==",
        "!=",
        "<",
        "and",
        "or",
        "not",
        "(",
        ")",
        "1",
        "0x10",
        '"a"',
        "args.nr",
        "retval",
    ),
    *(FOREIGN, "arg0", "arg0:str", "x=arg0:u64", "9" * 30, "-1"),
]
EXPRESSIONS = ["pid == 1{}", 'comm == "{}"', "{}pid == 1", "pid == {}", "{}", "comm == {}", "pid{}== 1 and tid == 2"]
COLUMNS = ["x=arg0:u64{}", "{}=arg0", "x={}", "{}", "x=arg0:str,{}"]


def texts(shapes, seed, number):
    source = random.Random(seed)
    singles = [shape.format(piece) for shape in shapes for piece in PIECES]
    yield from singles
    for _ in range(number):
        pieces = source.choices(PIECES, k=source.randrange(1, 6))
        yield source.choice(shapes).format(source.choice(["", " "]).join(pieces))


def sent(shapes, seed):
    """Those texts that a message can have."""
    return [text for text in texts(shapes, seed, 50) if "\ud800" not in text]


def is_ours(plan):
    text = generate(plan, ()).text
    return own_text.foreign_line(text, TEMPLATES) is None and FOREIGN not in text


@pytest.mark.parametrize(("option", "shapes"), [("filter", EXPRESSIONS), ("args", COLUMNS)])
def test_no_text_of_a_user_gets_into_the_programs(option, shapes):
    accepted = 0
    for text in texts(shapes, 3, thorough.choose(1000, 50_000)):
        try:
            plan = make_plan((GETPPID, "tracepoint:raw_syscalls:sys_enter"), scope="self", **{option: text})
        except AccelMagicError:
            continue
        accepted += 1
        assert is_ours(plan), text
    assert accepted


def attach(**options):
    request = TraceRequest(**{"specs": (GETPPID,), "mode": "count", **options})
    return {"type": "attach", "request": msgspec.to_builtins(request)}


def test_texts_of_a_user_are_answered_with_an_error_or_a_trace(broker):
    before, source = kernel_objects(), random.Random(5)
    wanted = [{"filter": text} for text in sent(EXPRESSIONS, 8)] + [{"args": text} for text in sent(COLUMNS, 9)]
    wanted += [{"specs": (text,)} for text in sent(["{}", "tracepoint:{}:x", "uprobe:{}:*", "latency:{}"], 10)]
    wanted = source.sample(wanted, thorough.choose(250, len(wanted)))
    with callers.connected(broker) as connection:
        for options in wanted:
            answer = callers.ask(connection, attach(**options))
            assert answer is not None, options
            if "code" in answer:
                assert answer["code"] not in ("compiler.foreign-text", "compiler.own-program"), options
            else:
                callers.ask(connection, {"type": "detach", "trace": answer["trace"]})
    callers.until(lambda: not kernel_objects() - before)


def test_what_no_message_can_hold_is_a_typed_error_and_the_connection_goes_on(broker):
    codes = broker.run(
        f"""
codes = [refused("{GETPPID}", filter='comm == "\\udc80"'), refused("{GETPPID}", max_events=1 << 70)]
answer(*codes, refused("{GETPPID}"))
"""
    )
    assert codes == ["broker.bad-request", "broker.bad-request", ""]


SPECS = {
    "everything": ("*:*",),
    "all tracepoints": ("tracepoint:*:*",),
    "everything of each kind": ("tracepoint:*:*", "kprobe:*", "uprobe:*:*", "usdt:*:*:*"),
    "256 times": (GETPPID,) * 256,
    "257 times": (GETPPID,) * 257,
    "256 system calls": tuple(f"tracepoint:syscalls:sys_enter_{'?' * number}" for number in range(1, 257)),
    "stars": ("tracepoint:syscalls:" + "*a" * 2000,),
    "brackets": ("tracepoint:syscalls:" + "[a-z]" * 700,),
    "long": ("tracepoint:" + "x" * 4085,),
    "too long": ("x" * 4097,),
    "none": (),
    "empty": ("",),
    "only exclusions": ("!tracepoint:*:*",),
}


def test_globs_that_match_everything_and_many_or_long_probes_are_typed_errors_or_traces(broker):
    before = kernel_objects()
    codes = {}
    with callers.connected(broker) as connection:
        for name, specs in SPECS.items():
            answer = callers.ask(connection, attach(specs=specs))
            assert answer is not None, name
            codes[name] = answer.get("code", "attached")
            if codes[name] == "attached":
                callers.ask(connection, {"type": "detach", "trace": answer["trace"]})
    assert codes.pop("256 times") == "attached"
    assert "attached" not in codes.values(), codes
    assert codes["257 times"] == codes["too long"] == "broker.bad-request"
    callers.until(lambda: not kernel_objects() - before)
