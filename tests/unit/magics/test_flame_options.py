"""The `%%flame` line as values."""

import pytest

from accel_magic.errors import ProbeError
from accel_magic.magics.flame_magic import parse, parser
from accel_magic.magics.magic_line import HelpRequested, option_names


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("", {}),
        ("--rate 499", {"rate": 499}),
        ("--off-cpu", {"off_cpu": True}),
        ("--off-cpu 50 --by-thread", {"off_cpu": 50.0, "by_thread": True}),
        ("--no-off-cpu --no-by-thread", {"off_cpu": False, "by_thread": False}),
        (
            "--with intel_vpu:ivpu_*_ioctl uprobe:libc:malloc -o t",
            {"probes": ("intel_vpu:ivpu_*_ioctl", "uprobe:libc:malloc")},
        ),
        ("npu --with a:b", {"probes": ("npu", "a:b")}),
        ("--gpu-kernels --device cpu", {"gpu_kernels": True, "device": "cpu"}),
        ("--sampler thread --all-frames --xe", {"sampler": "thread", "all_frames": True, "xe": True}),
        (
            "--xe --interval 25 --eu-stall-subsample=7",
            {"xe": True, "interval": 25, "eu_stall_subsample": 7},
        ),
    ],
)
def test_options_on_the_line_are_parsed(line, given):
    assert parse(line).given == given


def test_the_common_options_match_the_other_magics():
    common = parse("--rate 99 -o f --save f.parquet --no-live --dry-run").common

    assert (common.output, common.save, common.live, common.dry_run) == ("f", "f.parquet", False, True)
    assert parse("--replay f.parquet --speed 4 --run").common.speed == 4


@pytest.mark.parametrize(
    "line",
    [
        *("--rate 0", "--rate fast", "--off-cpu -5", "--sampler perf", "--device cpu", "--speed 2"),
        *(
            "--xe --interval 0",
            "--xe --interval 2.5",
            "--xe --eu-stall-subsample none",
            "--replay f.parquet --interval 5",
        ),
        *("--replay f.parquet --rate 99", "--replay f.parquet --off-cpu", "-o 1x", "--wit a:b", "--with"),
    ],
)
def test_mistakes_are_errors_with_a_fix(line):
    with pytest.raises(ProbeError) as caught:
        parse(line)
    assert caught.value.fix


def test_help_lists_every_option():
    with pytest.raises(HelpRequested) as caught:
        parse("--help")
    assert all(name in str(caught.value) for name in option_names(parser()))
