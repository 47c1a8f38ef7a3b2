"""Recordings of earlier versions, which have a record of each lane of a scattered request."""

import pandas as pd

from accel_magic.gpu_tools.pagetrace import accesses


def test_of_the_lanes_of_a_request_only_the_first_of_each_page_is_kept():
    pages = [5, 5, 6, 5, 5, 5, 6, 6, 7]
    touches = pd.DataFrame(
        {
            "thread": [*range(4), *range(4), 40],
            "launch": 1,
            "site": 0,
            "active": [15] * 8 + [0xFFFFFFFF],
            "single": [0] * 8 + [1],
            "page": pages,
            "more": [0] * 8 + [2],
        }
    )
    assert accesses(touches)["page"].tolist() == [5, 6, 5, 6, 7, 8, 9]
    new = touches.drop(columns=["single", "active"])
    assert accesses(new)["page"].tolist() == [*pages, 8, 9]
