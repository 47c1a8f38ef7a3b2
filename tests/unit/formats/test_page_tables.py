"""Page traces as Parquet and CSV of other tools."""

from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accel_magic
from accel_magic.errors import AccelMagicError, RecordingError
from accel_magic.policies.page_trace import PageTrace
from tests.support.errors import raises
from tests.support.thorough import choose


@pytest.fixture
def opened(tmp_path):
    def write(content):
        path = tmp_path / "trace.csv"
        path.write_text(content)
        return accel_magic.open(path)

    return write


def test_a_csv_file_with_all_columns_is_a_page_trace(opened):
    trace = opened(
        'Page,write,kernel,launch,tenant,allocation,note\n7,1,"add, all",0,a,w,x\n0x200,R,,,b,,\n9,store,mul,2,a,w,y\n'
    )

    assert isinstance(trace, PageTrace)
    assert trace.source == "imported from trace.csv"
    assert trace.page.tolist() == [7, 512, 9]
    assert trace.write.tolist() == [True, False, True]
    assert (trace.kernels, trace.kernel.tolist()) == (("add, all", "mul"), [0, -1, 1])
    assert trace.launch.tolist() == [0, -1, 2]
    assert (trace.tenants, trace.tenant.tolist()) == (("a", "b"), [0, 1, 0])
    assert (trace.allocations, trace.allocation.tolist()) == (("w",), [0, -1, 0])


def test_addresses_become_pages(opened):
    trace = opened("address\n0\n4095\n4096\n0xffffffffffffffff\n")

    assert trace.page.tolist() == [0, 0, 1, 2**52 - 1]
    assert (trace.write, trace.kernel, trace.tenants) == (None, None, ("0",))


def test_a_header_without_rows_is_an_empty_trace(opened):
    assert len(opened("page,write\n")) == 0


def test_a_parquet_file_with_pages_is_a_page_trace(tmp_path):
    frame = pd.DataFrame(
        {
            "page": np.arange(300_000) % 1000,
            "write": np.arange(300_000) % 3 == 0,
            "kernel": np.where(np.arange(300_000) % 2, "mul", "add"),
            "tenant": np.arange(300_000) % 5,
            "time": 1.5,
        }
    )
    frame.to_parquet(tmp_path / "x.parquet")

    trace = accel_magic.open(tmp_path / "x.parquet")

    back = trace.frame()
    assert np.array_equal(trace.page, frame["page"])
    assert back["write"].tolist() == frame["write"].tolist()
    assert back["kernel"].astype(str).tolist() == frame["kernel"].tolist()
    assert back["tenant"].astype(str).tolist() == frame["tenant"].astype(str).tolist()


def test_categories_and_missing_names_of_parquet_are_read(tmp_path):
    table = pa.table(
        {
            "address": pa.array([4096, 8192, 0], pa.uint64()),
            "kernel": pa.array(["b", None, "a"]).dictionary_encode(),
            "launch": pa.array([1, None, 2], pa.int64()),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=1)

    trace = accel_magic.open(tmp_path / "x.parquet")

    assert trace.page.tolist() == [1, 2, 0]
    assert trace.frame()["kernel"].astype(object).where(lambda x: x.notna(), None).tolist() == ["b", None, "a"]
    assert trace.launch.tolist() == [1, -1, 2]


@pytest.mark.parametrize(
    ("content", "code", "why"),
    [
        ("page,address\n1,4096\n", "pages.no-column", "not both"),
        ("page,PAGE\n1,4096\n", "pages.no-column", "several"),
        ("page\n-1\n", "pages.bad-value", "-1"),
        ("page\nx\n", "pages.bad-value", "x"),
        ("page\n1.5\n", "pages.bad-value", "1.5"),
        ("page\n18446744073709551616\n", "pages.bad-value", "18446744073709551616"),
        ("page,write\n1,maybe\n", "pages.bad-value", "maybe"),
        ("page,write\n1,\n", "pages.bad-value", "no write"),
        ("page,write\n,1\n", "pages.bad-value", "no page"),
        ("page,tenant\n1,\n", "pages.bad-value", "no tenant"),
        ("page,launch\n1,99999999999\n", "pages.bad-value", "99999999999"),
        ("page,write\n1\n", "pages.bad-value", "columns"),
    ],
)
def test_tables_with_other_values_are_rejected_with_the_value(opened, content, code, why):
    with raises(code, RecordingError) as error:
        opened(content)

    assert why in error.value.why


@pytest.mark.parametrize("values", [["a", "b"], [1.5, 2.0], [-1, 2], [None, 1], [[1], [2]]], ids=str)
def test_parquet_tables_with_other_values_are_rejected(tmp_path, values):
    pq.write_table(pa.table({"page": values}), tmp_path / "x.parquet")

    with raises("pages.bad-value", RecordingError):
        accel_magic.open(tmp_path / "x.parquet")


def test_a_damaged_parquet_file_is_a_trace_or_an_error(tmp_path):
    path, random = tmp_path / "x.parquet", np.random.default_rng(2)
    rows = np.arange(2000)
    pd.DataFrame({"address": rows * 100, "kernel": np.where(rows % 2, "a", "bb"), "write": rows % 3 == 0}).to_parquet(
        path
    )
    sound = path.read_bytes()
    footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")  # pyarrow aborts on some damage to it

    for _ in range(choose(100, 3000)):
        data = bytearray(sound)
        data[random.integers(4, footer)] = random.integers(256)
        path.write_bytes(data)
        with suppress(AccelMagicError):
            accel_magic.open(path).frame()


def test_a_trace_that_needs_more_memory_than_allowed_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_MAGIC_LARGEST_RECORDING_MIB", "8")
    pd.DataFrame({"page": np.zeros(2_000_000, np.uint64)}).to_parquet(tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text("page\n" + "1\n" * 2_000_000)

    for name in ("x.parquet", "x.csv"):
        with raises("recording.too-large", RecordingError):
            accel_magic.open(tmp_path / name)


@settings(max_examples=100)
@given(st.binary(max_size=60))
def test_any_bytes_after_a_header_are_a_trace_or_an_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_bytes(b"page,write,kernel,tenant\n" + content)

    with suppress(AccelMagicError):
        assert isinstance(accel_magic.open(path), PageTrace)
