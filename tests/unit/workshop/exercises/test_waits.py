"""Exercise 7: the program's own clock is the truth, and a student's version runs beside the original."""

import threading

import pytest

from accel_magic.workshop import locked_program, material, session
from accel_magic.workshop.exercise import BadAnswerError
from accel_magic.workshop.exercises import waits
from accel_magic.workshop.exercises.waits import EXERCISE
from accel_magic.workshop.locked_program import Parameters, Program, TimedLock

pytestmark = pytest.mark.component

TRUTH = {
    "program": {
        "workers": 6,
        "rounds": 2,
        "culprit": "parse",
        "sleep_ms": {"fetch": 0.2, "parse": 8.0, "audit": 0.3, "report": 9.0},
        "compute_ms": 0.1,
    },
    "lock_ms": 1200.0,
    "sleep_ms": 300.0,
    "cpu_ms": 30.0,
    "wall_ms": 600.0,
}


def original(program):
    """As in the notebook."""
    for number in range(program.rounds):
        with program.lock:
            line = program.fetch(number)
            record = program.parse(line)
            program.audit(record)
            program.store(record)
        program.report(number)


def fixed(program):
    for number in range(program.rounds):
        line = program.fetch(number)
        record = program.parse(line)
        program.audit(record)
        with program.lock:
            program.store(record)
        program.report(number)


def stored_at_the_end(program):
    records = [program.parse(program.fetch(number)) for number in range(program.rounds)]
    for record in records:
        program.audit(record)
    program.lock.acquire()
    for record in records:
        program.store(record)
    program.lock.release()
    for record in records:
        program.report(record)


def unlocked(program):
    for number in range(program.rounds):
        record = program.parse(program.fetch(number))
        program.audit(record)
        program.store(record)
        program.report(number)


def incomplete(program):
    for number in range(program.rounds):
        with program.lock:
            program.store(number)


RIGHT = {"lock_ms": 1100.0, "sleep_ms": 320, "culprit": "parse", "fixed_work": fixed}
MISTAKES = {
    "join": {"lock_ms": 1800.0},
    "mean": {"lock_ms": 200.0},
    "wall": {"sleep_ms": 600.0},
    "unit": {"lock_ms": 1.2e9},
    "swapped": {"lock_ms": 300.0},
    "on-cpu": {"sleep_ms": 30.0},
    "outside": {"culprit": "report"},
    "short": {"culprit": "fetch"},
    "needs-lock": {"culprit": "store"},
    "waiter": {"culprit": "with program.lock:"},
    "unlocked": {"fixed_work": unlocked},
    "incomplete": {"fixed_work": incomplete},
    "still-slow": {"fixed_work": original},
}


def judged(**changed):
    exercise = EXERCISE(seed=1)
    exercise.truth = TRUTH
    return {remark.answer: remark for remark in exercise.judge(RIGHT | changed)}


def run(work):
    program = Program(Parameters(**TRUTH["program"]))
    program.run(work)
    return program


@pytest.fixture
def without_runs(monkeypatch):
    """Judge numbers and names only."""
    monkeypatch.setattr(EXERCISE, "_fixed", lambda self, work: self.mistake("fixed_work", "still-slow"))


@pytest.fixture
def at_any_speed(monkeypatch):
    """Accept any time: on a busy machine, it says nothing."""
    monkeypatch.setattr(waits, "LIMIT", 1000.0)


@pytest.mark.parametrize("work", [fixed, stored_at_the_end])
def test_right_answers_solve_it(work, at_any_speed):
    remarks = judged(fixed_work=work)

    assert [one.right for one in remarks.values()] == [True] * 4, remarks


@pytest.mark.parametrize("key", EXERCISE.wrong)
def test_a_mistake_has_its_own_sentence(key, monkeypatch):
    ((answer, value),) = MISTAKES[key].items()
    monkeypatch.setattr(
        waits, "LIMIT", 0.001 if answer == "fixed_work" else 1000.0
    )  # nothing is fast enough, or all is

    remark = judged(**{answer: value})[answer]

    assert (remark.right, remark.wrong, remark.text) == (False, key, EXERCISE.wrong[key])


@pytest.mark.parametrize("unit", [1e-3, 1e3, 1e6])
def test_other_units_are_recognized(unit, without_runs):
    assert judged(lock_ms=1200 * unit)["lock_ms"].wrong == "unit"


@pytest.mark.parametrize(("sleep_ms", "right"), [(170, False), (185, True), (210, True), (340, True), (360, False)])
def test_a_sleep_is_between_what_was_requested_and_the_clock(sleep_ms, right, without_runs):
    """The clock has 300 ms, with waits for the GIL; 12 times 17.5 ms were requested."""
    assert judged(sleep_ms=sleep_ms)["sleep_ms"].right == right


@pytest.mark.parametrize(
    "name", ["parse", " parse ", "program.parse", "Program.parse (locked_program.py:134)", "parse()"]
)
def test_a_step_may_be_named_as_the_graph_names_it(name, without_runs):
    assert judged(culprit=name)["culprit"].right


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"lock_ms": 5000}, "it is less"),
        ({"sleep_ms": 900}, "it is less"),
        ({"sleep_ms": 0}, "it is more"),
        ({"culprit": "time.time"}, "the name of a step"),
    ],
)
def test_other_wrong_answers_are_described(changed, expected, without_runs):
    (answer,) = changed

    remark = judged(**changed)[answer]

    assert (remark.right, remark.wrong) == (False, "")
    assert expected in remark.text


@pytest.mark.parametrize(
    "changed",
    [{"lock_ms": "many"}, {"sleep_ms": [3]}, {"culprit": 4}, {"fixed_work": "fixed_work"}, {"fixed_work": 3}],
)
def test_answers_of_another_kind_are_bad_answers(changed, without_runs):
    (answer,) = changed

    with pytest.raises(BadAnswerError) as error:
        judged(**changed)

    assert error.value.remark.answer == answer


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda program: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (lambda: None, "takes 0 positional arguments"),
        (lambda program: program.parse("nothing"), "raised ValueError"),
    ],
)
def test_what_a_students_function_raises_is_a_remark(work, expected):
    remark = judged(fixed_work=work)["fixed_work"]

    assert not remark.right
    assert expected in remark.text


def test_a_lock_that_is_never_given_back_ends_the_run(monkeypatch):
    monkeypatch.setattr(locked_program, "_LONGEST_S", 0.2)

    with pytest.raises(TimeoutError, match="is the lock given back"):
        run(lambda program: program.lock.acquire())


def test_a_version_is_slow_only_if_it_is_in_each_round(monkeypatch):
    taken = iter([100.0, 90.0, 100.0, 61.0, 100.0, 55.0])
    monkeypatch.setattr(Program, "run", lambda self, work: setattr(self, "wall_ms", next(taken)))
    monkeypatch.setattr(Program, "is_complete", lambda self: True)

    assert judged()["fixed_work"].right
    assert list(taken) == []


def test_the_program_measures_its_waits_and_sleeps_itself():
    program = run(original)
    sleeps = TRUTH["program"]["sleep_ms"]

    assert program.slept.ms >= 12 * sum(sleeps.values())
    assert program.lock.waited.ms > 0
    assert program.wall_ms >= 12 * (sleeps["parse"] + sleeps["fetch"] + sleeps["audit"]), "one after the other"
    assert program.is_complete()
    assert program.stored_unlocked == []


def test_a_wait_for_the_lock_is_from_asking_for_it_until_it_is_given(monkeypatch):
    clock = [10.0]

    class GivenLate:
        def acquire(self):
            clock[0] += 0.25

        def release(self):
            clock[0] += 3

    lock = TimedLock()
    lock._lock = GivenLate()
    monkeypatch.setattr(locked_program.time, "perf_counter", lambda: clock[0])

    for _ in range(2):
        with lock:
            assert lock.is_held()
            clock[0] += 5

    assert lock.waited.ms == pytest.approx(500)
    assert not lock.is_held()


def test_a_lock_is_held_by_one_thread():
    lock, seen = TimedLock(), []
    with lock:
        thread = threading.Thread(target=lambda: seen.append(lock.is_held()))
        thread.start()
        thread.join()

    assert seen == [False]


@pytest.mark.parametrize("seed", range(40))
def test_parameters_of_every_seed_make_the_same_lesson(seed):
    parameters = EXERCISE(seed)._parameters
    sleeps = parameters.sleep_ms
    under_lock = sum(sleeps[step] for step in locked_program.UNDER_LOCK) + 3 * parameters.compute_ms

    assert max(locked_program.UNDER_LOCK, key=sleeps.__getitem__) == parameters.culprit
    assert sleeps[parameters.culprit] > 0.7 * under_lock
    assert max(sleeps, key=sleeps.get) == "report", "what sleeps the longest is not to blame"
    assert under_lock + sleeps["report"] < 0.9 * waits.LIMIT * parameters.workers * under_lock


def test_a_run_notes_the_truth_about_itself(at_any_speed):
    exercise = EXERCISE(seed=2)

    exercise.run(original)

    assert exercise.ran()
    assert exercise.truth["program"]["culprit"] == exercise._parameters.culprit
    answers = {"lock_ms": exercise.truth["lock_ms"], "sleep_ms": exercise.truth["sleep_ms"]}
    remarks = exercise.judge(answers | {"culprit": exercise._parameters.culprit, "fixed_work": fixed})
    assert [one.right for one in remarks] == [True] * 4, remarks


def test_an_error_in_a_worker_is_raised_by_the_run():
    exercise = EXERCISE(seed=2)

    with pytest.raises(ZeroDivisionError):
        exercise.run(lambda program: 1 / 0)

    assert not exercise.ran()


@pytest.mark.parametrize("variant", range(3))
def test_recordings_agree_with_the_programs_own_clock(variant, without_runs):
    import accel_magic

    exercise = EXERCISE(seed=variant + 3)  # other parameters, the same recording
    exercise.truth = session._recorded_truth(exercise)
    threads = accel_magic.open(material.recordings() / f"waits_{variant}-f.parquet").threads
    workers = threads[threads["name"].str.startswith("worker")]
    answers = {"lock_ms": workers["lock_ns"].sum() / 1e6, "sleep_ms": workers["sleep_ns"].sum() / 1e6}

    remarks = exercise.judge(answers | {"culprit": exercise.truth["program"]["culprit"], "fixed_work": fixed})

    assert [one.right for one in remarks[:3]] == [True] * 3, remarks
    assert len(workers) == exercise.truth["program"]["workers"]
