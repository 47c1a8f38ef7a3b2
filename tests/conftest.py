"""What all tests share: thousands of them in one process would spend a part of their time on garbage collection."""

import gc


def pytest_collection_finish():
    """Leave what was imported and collected alone, and look at the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_unconfigure():
    """Let what was left alone be collected at the end."""
    gc.unfreeze()
