import threading

from accel_magic.lab.image import store


def test_the_size_of_a_folder_is_that_of_its_files_and_links_count_for_themselves(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(bytes(1000))
    (tmp_path / "y").write_bytes(bytes(24))
    assert store.size_of(tmp_path / "a") == 1000
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert store.size_of(tmp_path / "link") == len(str(tmp_path / "a"))
    assert store.size_of(tmp_path / "none") == 0


def test_files_that_go_while_they_are_counted_are_no_error(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            for number in range(50):
                (folder / f"{number}").touch()
            for number in range(50):
                (folder / f"{number}").unlink()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        assert {store.size_of(folder) for _ in range(300)} == {0}
    finally:
        stop.set()
        thread.join()


def test_removing_tells_the_bytes_and_what_is_not_there_has_none(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(bytes(1000))
    assert store.remove(tmp_path / "a") == 1000
    assert store.remove(tmp_path / "a") == 0
