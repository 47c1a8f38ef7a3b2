"""Tables of several nodes as one."""

import pandas as pd

from accel_magic.analysis.by_node import together
from accel_magic.cluster.node import Node

FIRST, SECOND = Node("h", 0, name="rank 0"), Node("g", name="worker")


def test_the_first_columns_are_those_of_the_node():
    one, other = pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [3], "b": ["x"]})

    table = together([(FIRST, one), (SECOND, other)])

    assert table.columns.tolist() == ["node", "host", "rank", "a", "b"]
    assert table["node"].tolist() == ["rank 0", "rank 0", "worker"]
    assert table["host"].tolist() == ["h", "h", "g"]
    assert table["rank"].dtype == "Int64"
    assert table["rank"].isna().tolist() == [False, False, True]
    assert table["a"].tolist() == [1, 2, 3]
    assert table["b"].isna().tolist() == [True, True, False]
    assert one.columns.tolist() == ["a"]  # not changed


def test_nodes_without_rows_leave_the_others_types_alone():
    filled, empty = pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": pd.Series(dtype=object)})

    assert together([(FIRST, empty), (SECOND, filled)])["a"].dtype == "int64"
    assert together([(FIRST, empty), (SECOND, empty)]).columns.tolist() == ["node", "host", "rank", "a"]


def test_columns_of_a_table_that_have_such_a_name_are_kept():
    table = together([(FIRST, pd.DataFrame({"node": [7], "rank": [9]}))])

    assert table.columns.tolist() == ["node of cluster", "host", "rank of cluster", "node", "rank"]
    assert table.loc[0].tolist() == ["rank 0", "h", 0, 7, 9]
