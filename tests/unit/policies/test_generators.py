"""Generated page traces, and their text form."""

import numpy as np
import pytest

from accel_magic.errors import ProbeError
from accel_magic.policies.generators import GENERATORS, generate, parse, shared
from accel_magic.policies.page_trace import PageTrace
from tests.support.errors import raises


@pytest.mark.parametrize("name", GENERATORS)
def test_equal_options_give_equal_traces_however_they_are_read(name):
    trace, again = generate(name, accesses=3000, seed=5), generate(name, accesses=3000, seed=5)

    assert len(trace) == len(trace.page) == 3000
    assert trace == again
    assert np.array_equal(np.concatenate([chunk.page for chunk in again.chunks(77)]), trace.page)
    assert "generated" in trace.source
    assert "accesses=3000" in trace.source


@pytest.mark.parametrize("name", ["zipf", "zipf+scan", "moe"])
def test_another_seed_gives_another_trace(name):
    assert not np.array_equal(generate(name, accesses=500).page, generate(name, accesses=500, seed=1).page)


@pytest.mark.parametrize("name", ["zipf", "moe"])
def test_parts_beyond_the_first_do_not_repeat_it(name):
    page = generate(name, accesses=3 << 20).page

    assert not np.array_equal(page[: 1 << 20], page[1 << 20 : 2 << 20])


def test_regular_traces_visit_what_their_options_say():
    def pages(*arguments, **options):
        return generate(*arguments, **options).page.tolist()

    assert pages("scan", accesses=4) == [0, 512, 1024, 1536]
    assert pages("scan", accesses=5, touches=2) == [0, 1, 512, 513, 1024]
    assert pages("loop", accesses=7, blocks=3) == [0, 512, 1024, 0, 512, 1024, 0]
    assert pages("loop", accesses=5, blocks=2, touches=2) == [0, 1, 512, 513, 0]
    assert pages("sequential", accesses=514, blocks=1)[510:] == [510, 511, 0, 1]
    assert pages("stride", accesses=4, blocks=1, stride=200) == [0, 200, 400, 88]


def test_zipf_visits_blocks_by_their_rank():
    page = generate("zipf", accesses=400_000, blocks=50, skew=1.0, seed=3).page
    counts = np.sort(np.bincount((page // 512).astype(int), minlength=50))[::-1]

    wanted = 1 / np.arange(1, 51)
    assert counts / 400_000 == pytest.approx(wanted / wanted.sum(), abs=0.003)
    assert np.bincount((page % 512).astype(int), minlength=512).min() > 500


def test_zipf_without_skew_is_uniform():
    page = generate("zipf", accesses=100_000, blocks=10, skew=0).page

    assert np.bincount((page // 512).astype(int)) / 10_000 == pytest.approx(np.ones(10), abs=0.05)


def test_scans_between_popular_blocks_visit_new_blocks():
    block = generate("zipf+scan", accesses=1200, blocks=8, every=50, scan=10).page // 512
    phase = np.arange(1200) % 60

    assert block[phase < 50].max() < 8
    assert block[phase >= 50].tolist() == list(range(8, 8 + 200))


def test_a_token_reads_all_blocks_of_different_experts():
    block = generate("moe", accesses=6000, blocks=40, experts=10, active=3, skew=1.5).page // 512
    experts = block.reshape(-1, 3, 4) // 4

    assert (block.reshape(-1, 4) % 4 == np.arange(4)).all()
    assert (experts == experts[:, :, :1]).all()
    assert all(len(set(token)) == 3 for token in experts[:, :, 0].tolist())
    often = np.sort(np.bincount(experts[:, :, 0].astype(int).ravel(), minlength=10))
    assert often[-1] > 3 * often[0]


def test_the_first_expert_of_a_token_is_drawn_by_its_rank():
    first = generate("moe", accesses=200_000, blocks=4, experts=4, active=1, skew=1).page // 512
    counts = np.sort(np.bincount(first.astype(int)))[::-1] / 200_000

    assert counts == pytest.approx(np.array([1, 1 / 2, 1 / 3, 1 / 4]) / (25 / 12), abs=0.005)


def test_a_command_line_names_a_trace_with_its_options():
    assert parse("zipf") == generate("zipf")
    assert parse("zipf:blocks=512,skew=0.9,seed=3") == generate("zipf", blocks=512, skew=0.9, seed=3)
    assert parse(" loop : accesses=1e4, blocks = 5 ") == generate("loop", accesses=10_000, blocks=5)
    assert parse("zipf:skew=1").source == generate("zipf", skew=1).source


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "pages.unknown-generator"),
        ("lru", "pages.unknown-generator"),
        ("zipf:", "pages.bad-option"),
        ("zipf:blocks", "pages.bad-option"),
        ("zipf:blocks=many", "pages.bad-option"),
        ("zipf:blocks=0", "pages.bad-option"),
        ("zipf:blocks=1.5", "pages.bad-option"),
        ("zipf:blocks=1e30", "pages.bad-option"),
        ("zipf:blocks=inf", "pages.bad-option"),
        ("zipf:skew=nan", "pages.bad-option"),
        ("zipf:skew=-1", "pages.bad-option"),
        ("zipf:seed=-1", "pages.bad-option"),
        ("zipf:name=1", "pages.bad-option"),
        ("zipf:=1", "pages.bad-option"),
        ("scan:blocks=4", "pages.bad-option"),
        ("scan:accesses=0", "pages.bad-option"),
        ("loop:touches=513", "pages.bad-option"),
        ("moe:experts=4,active=5", "pages.bad-option"),
        ("moe:experts=9,blocks=8", "pages.bad-option"),
    ],
)
def test_bad_texts_are_rejected_with_a_fix(text, code):
    with raises(code, ProbeError) as error:
        parse(text)

    assert error.value.fix


def test_booleans_are_not_numbers():
    with raises("pages.bad-option", ProbeError):
        generate("zipf", blocks=True)


def test_processes_take_turns_and_share_no_block():
    first = PageTrace.of([512 * 9, 512 * 9 + 1, 512 * 4, 512 * 4 + 1, 512 * 9], source="a")
    second = PageTrace.of([7, 8, 9], source="b")

    trace = shared([first, second], turn=2)

    assert trace.tenant.tolist() == [0, 0, 1, 1, 0, 0, 1, 0]
    assert trace.page.tolist() == [512, 513, 1024 + 7, 1024 + 8, 0, 1, 1024 + 9, 512]
    assert trace.source == "2 accesses in turn of: a; b"
    assert trace.tenants == ("0", "1")


@pytest.mark.parametrize("turn", [1, 7, 1 << 19])
def test_long_traces_of_processes_keep_each_order_and_the_turns(turn):
    parts = [generate("zipf", accesses=700_001, blocks=9), generate("loop", accesses=1_500_000, blocks=5)]

    trace = shared(parts, turn=turn)

    for number, part in enumerate(parts):
        assert np.array_equal(trace.page[trace.tenant == number] - number * 9 * 512, part.page)
    both = 2 * (700_001 // turn) * turn
    assert np.array_equal(trace.tenant[:both], np.arange(both) // turn % 2)


def test_writes_are_kept_if_all_processes_have_them():
    writes = PageTrace.of([0, 1], write=[True, False], source="w")

    assert shared([writes, writes], turn=1).write.tolist() == [True, True, False, False]
    assert shared([writes, PageTrace.of([0], source="x")]).write is None


@pytest.mark.parametrize(("count", "turn"), [(0, 1), (1, 0)])
def test_no_processes_and_no_turns_are_rejected(count, turn):
    with raises("pages.bad-option", ProbeError):
        shared([generate("scan")] * count, turn=turn)
