from accel_magic.subsystems.npu.mappings import mappings

MAP, PAGE = "ivpu_mmu_context_map_sgt", "ivpu_mmu_context_map_page"


def mapping(recorder, at, pages, *, tid=11, bo=1, address=0x1000, lasts=500):
    recorder.call("ivpu_bo_bind", at, tid=tid, lasts=lasts + 20, bo=bo)
    recorder.call(MAP, at + 10, tid=tid, lasts=lasts, vpu_addr=address)
    for number in range(pages):
        recorder.call(PAGE, at + 20 + number, tid=tid, vpu_addr=address + (number << 12))


def test_a_mapping_has_its_pages_address_buffer_and_time(recorder):
    mapping(recorder, 1000, 16, tid=12, bo=77, address=0x80000000)

    (row,) = mappings(recorder.trace()).to_dict("records")
    assert row == {
        "vpu_addr": 0x80000000, "bo": 77, "pages": 16, "bytes": 65536, "start_ns": 1010, "duration_ns": 500, "pid": 10,
        "tid": 12, "first_row": 1,
    }  # fmt: skip


def test_pages_belong_to_the_mapping_of_their_own_thread(recorder):
    mapping(recorder, 1000, 3, tid=11, bo=1)
    mapping(recorder, 1005, 30, tid=21, bo=2)
    mapping(recorder, 1009, 5, tid=12, bo=3)

    assert mappings(recorder.trace())[["bo", "pages"]].to_numpy().tolist() == [[1, 3], [2, 30], [3, 5]]


def test_pages_outside_all_mappings_belong_to_none(recorder):
    mapping(recorder, 1000, 2, lasts=50)
    recorder.call(PAGE, 5000)

    assert mappings(recorder.trace())["pages"].tolist() == [2]


def test_mappings_without_durations_last_until_the_next(recorder):
    recorder.calls(f"ivpu_bo_pin {MAP} {PAGE} {PAGE} ivpu_mmu_invalidate_tlb ivpu_bo_pin {MAP} {PAGE}")

    assert mappings(recorder.trace())["pages"].tolist() == [2, 1]
    assert mappings(recorder.trace(timed=False))["pages"].tolist() == [2, 1]
    assert mappings(recorder.trace())["duration_ns"].isna().all()


def test_binding_replaces_a_mapping_that_was_not_traced(recorder):
    for at, pages in ((1000, 4), (3000, 0), (5000, 1)):
        recorder.call("ivpu_bo_bind", at, lasts=500, bo=at)
        for number in range(pages):
            recorder.call(PAGE, at + 10 + number)

    assert mappings(recorder.trace())[["bo", "pages"]].to_numpy().tolist() == [[1000, 4], [5000, 1]]


def test_pages_that_were_not_traced_are_missing(recorder):
    recorder.call(MAP, 1000, lasts=10)
    table = mappings(recorder.trace())
    assert table["pages"].isna().all()
    assert table["bytes"].isna().all()

    assert mappings(recorder.trace(traced=[PAGE]))["pages"].tolist() == [0]
