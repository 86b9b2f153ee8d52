"""`Watch` gives what `examine` gives, in time, in order, in files, whatever fails."""

import csv
import dataclasses
import json
import math
import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab import Watch
from theorylab.checkup import Reading, examine
from theorylab.checkup.rows import MEASURES
from theorylab.checkup.watching.entries import Entry
from theorylab.checkup.watching.events import EventFile, crc32c
from theorylab.checkup.watching.pursuit import CERTIFIED, follow
from theorylab.checkup.watching.schedule import Schedule
from theorylab.checkup.watching.table import Table
from theorylab.models import mlp, network

MODEL = network(mlp((6,)), input_shape=(3,))
X = jax.random.normal(jax.random.key(1), (20, 3))
Y = jnp.sin(X[:, :1])


def loss(params):
    return ((MODEL.apply(params, X) - Y) ** 2).mean()


@jax.jit
def descend(params):
    return jax.tree.map(lambda w, g: w - 0.1 * g, params, jax.grad(loss)(params))


def start(seed=0):
    return MODEL.init(jax.random.key(seed))


def top(params):
    """The largest eigenvalue of the dense Hessian."""
    flat, unravel = ravel_pytree(params)
    return np.linalg.eigvalsh(jax.hessian(lambda w: loss(unravel(w)))(flat))[-1]


def reading(value):
    return Reading(value, value, value, "exact", "told by a test", "nothing")


def planted(name, read, needs=()):
    """A measure of the test's own."""
    return dataclasses.replace(MEASURES["sharpness"], name=name, read=read, needs=needs)


def total(subject):
    return reading(float(sum(leaf.sum() for leaf in jax.tree.leaves(subject.params))))


class Clock:
    """A clock that stands still, unless it is told to go on."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_the_first_row_is_that_of_examine():
    """Oracle: `examine` with the same key and budget at the same parameters."""
    params = start()
    watch = Watch(MODEL.apply, "mse", X, Y, measures=["sharpness"], budget=None)
    watch(0, params)
    card = examine(MODEL.apply, params, X, Y, loss="mse", only=["sharpness"], budget=10.0)
    entry = watch.entries[0]
    found = card.reading("sharpness")
    assert (entry.value, entry.low, entry.high) == (found.value, found.low, found.high)
    assert watch.card.reading("sharpness").value == found.value


def test_sharpness_is_followed_in_few_products():
    """Oracle: the dense Hessian at every step."""
    params, dense = start(), []
    watch = Watch(MODEL.apply, "mse", X, Y, every=5, measures=["sharpness"], budget=None)
    products = []
    for step in range(0, 75, 5):
        watch(step, params)
        dense.append(top(params))
        found = watch.rows["sharpness"][1].reading
        assert found is not None
        products.append(found.products)
        for _ in range(5):
            params = descend(params)
    np.testing.assert_allclose(watch.curve("sharpness").values, dense, rtol=2e-3)
    kinds = [each.certainty for each in watch.entries]
    assert [kind == "certified" for kind in kinds] == [i % CERTIFIED == 0 for i in range(15)]
    assert max(products[2:CERTIFIED]) <= 8


def test_what_shares_its_products_is_read_with_the_certified_sharpness():
    """Oracle: the rounds in which sharpness is certified; other measures are in every round."""
    measures = ["sharpness", planted("stability", total), planted("other", total)]
    watch = Watch(MODEL.apply, "mse", X, Y, every=1, measures=measures, budget=None)
    for step in range(25):
        watch(step, start())
    certified = [each.step for each in watch.entries if each.certainty == "certified"]
    assert certified == [0, 10, 20]
    assert watch.curve("stability").steps.tolist() == certified
    assert watch.curve("other").steps.tolist() == list(range(25))


def test_a_direction_that_becomes_the_steepest_is_found():
    """Oracle: a planted spectrum. The start is exactly another eigenvector, but for its noise."""
    spectrum = jnp.linspace(0.0, 1.0, 50).at[0].set(3.0)
    noise = jax.random.normal(jax.random.key(0), (50,))
    vector = jnp.zeros(50).at[-1].set(1.0) + 0.1 * noise / jnp.linalg.norm(noise)
    value, vector, residual, products = follow(lambda v: spectrum * v, vector, 20)
    assert abs(value - 3.0) <= residual**2 / 2 + 1e-12
    assert residual <= 0.02 * value
    assert products < 20
    np.testing.assert_allclose(jnp.linalg.norm(vector), 1.0, rtol=1e-12)


def test_the_share_of_time_stays_within_the_budget():
    """Oracle: the clock's own sums, at every step."""
    clock = Clock()

    def slow(subject):
        clock.now += 3.0
        return reading(1.0)

    measures = [planted("one", slow), planted("two", slow)]
    watch = Watch(MODEL.apply, "mse", X, Y, every=1, measures=measures, budget=0.1, clock=clock)
    params, trained = start(), 0.0
    for step in range(600):
        watch(step, params)
        clock.now += 1.0
        trained += 1.0
        assert clock.now - trained <= 0.1 * trained + 5.0  # a start: expected 1, took 3; a repeat
        if trained > 250:
            assert clock.now - trained <= 0.1 * trained
    assert clock.now - trained >= 0.08 * trained  # and it is used
    curves = [watch.curve(name).steps for name in ("one", "two")]
    assert curves[0][0] == curves[1][0] == 0  # the parameters of the first step were kept
    assert set(curves[1][1:]) <= set(curves[0])
    assert watch.share == pytest.approx((clock.now - trained) / (trained - 1.0))


def test_the_check_of_the_network_is_booked_as_its_own():
    """Oracle: a network that moves the clock whenever Python runs it."""
    clock = Clock()

    def apply(params, x):
        clock.now += 2.0
        return MODEL.apply(params, x)

    watch = Watch(apply, "mse", X, Y, measures=[planted("one", total)], clock=clock)
    watch(0, start(), loss=1.0)
    spent = clock.now
    clock.now += 1000.0
    watch(1, start())
    assert spent >= 2.0
    assert watch.share == spent / 1000.0


def test_nothing_is_measured_more_often_than_every():
    clock = Clock()
    watch = Watch(MODEL.apply, "mse", X, Y, every=7, measures=[planted("one", total)], clock=clock)
    for step in range(100):
        watch(step, start())
        clock.now += 100.0
    steps = watch.curve("one").steps
    assert np.diff(steps).min() == np.diff(steps).max() == 7


def test_a_short_run_pays_nothing():
    """Measures start when they are earned: ten seconds earn one, which a start may take."""
    clock = Clock()
    watch = Watch(MODEL.apply, "mse", X, Y, every=1, measures=[planted("one", total)], clock=clock)
    for step in range(9):
        watch(step, start())
        clock.now += 1.0
    assert not watch.entries
    watch.measure(9, start())  # asked for, whatever it costs
    assert watch.curve("one").steps.tolist() == [0, 9]


def test_the_first_step_is_measured_at_its_own_parameters():
    """Oracle: the sums of the parameters. Those of the first call are deleted, as if donated."""
    clock = Clock()
    watch = Watch(MODEL.apply, "mse", X, Y, every=1, measures=[planted("sum", total)], clock=clock)
    first, last = start(0), start(1)
    sums = [float(sum(leaf.sum() for leaf in jax.tree.leaves(tree))) for tree in (first, last)]
    watch(0, first)
    jax.tree.map(lambda leaf: leaf.delete(), first)
    clock.now += 1000.0
    watch(1, last)
    np.testing.assert_allclose(watch.curve("sum").values, sums, rtol=1e-12)


def test_nothing_is_compiled_after_the_start():
    """Oracle: JAX's own events of compilation."""
    watch = Watch(MODEL.apply, "mse", X, Y, every=1, measures=["sharpness"], budget=None)
    params = start()
    for step in range(CERTIFIED + 3):  # certified, followed without a vector, followed, certified
        watch(step, params)
        params = descend(params)
    compiled = []

    def listen(event, duration_secs, **_):
        if "backend_compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for step in range(CERTIFIED + 3, 3 * CERTIFIED):
            watch(step, params)
            params = descend(params)
        assert compiled == []
        jax.jit(lambda x: x + 0.123)(1.0)
        assert compiled  # the ear hears
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert len(watch.curve("sharpness").steps) == 3 * CERTIFIED


def test_a_crash_is_kept_and_training_goes_on():
    def broken(subject):
        raise RuntimeError("boom")

    calls = []

    def angry(numbers):
        calls.append(numbers)
        raise OSError("no network")

    measures = [planted("bad", broken), planted("sum", total)]
    watch = Watch(MODEL.apply, "mse", X, Y, every=1, measures=measures, budget=None, callback=angry)

    gone = jnp.ones(())
    gone.delete()

    def train():
        for step in range(6):
            watch(step, start(), **{"sum": 1.0, "shape": np.ones(2), "gone": gone})

    with pytest.warns(RuntimeWarning) as caught:
        train()
    told = {str(warning.message).split()[1] for warning in caught}
    assert told == {"bad", "callback", "sum", "shape", "gone"}
    assert len(caught) == 5
    assert sum(failure.name == "bad" for failure in watch.failures) == 3  # then left alone
    assert all("boom" in failure.reason for failure in watch.failures if failure.name == "bad")
    assert watch.curve("sum").steps.tolist() == list(range(6))
    assert len(calls) == 6


def test_an_interrupt_stops_the_training():
    def stopped(subject):
        raise KeyboardInterrupt

    watch = Watch(MODEL.apply, "mse", X, Y, measures=[planted("x", stopped)], budget=None)
    with pytest.raises(KeyboardInterrupt):
        watch(0, start())


def test_divergence_is_data():
    params = start()
    lost = jax.tree.map(lambda leaf: leaf * jnp.nan, params)
    watch = Watch(MODEL.apply, "mse", X, Y, every=1, measures=["sharpness"], budget=None)
    for step, each in enumerate((lost, params, lost, params)):
        watch(step, each)
    assert [each.status for each in watch.entries] == ["diverged", "measured"] * 2
    curve = watch.curve("sharpness")
    assert np.isnan(curve.values).tolist() == [True, False, True, False]
    assert not watch.failures


def test_parameters_of_another_shape_are_a_failure():
    watch = Watch(MODEL.apply, "mse", X, Y, every=1, measures=["sharpness"], budget=None)
    watch(0, start())
    with pytest.warns(RuntimeWarning, match="tree and shapes"):
        watch(1, {"w": jnp.ones(3)})
    watch(2, start())
    assert watch.curve("sharpness").steps.tolist() == [0, 2]


def test_inside_jit_it_says_so():
    watch = Watch(MODEL.apply, "mse", X, Y, measures=["sharpness"])

    @jax.jit
    def step(params):
        watch(0, params)
        return params

    with pytest.raises(TypeError, match="outside of jit"):
        step(start())


def test_a_run_goes_on_where_it_was(tmp_path):
    """Oracle: one run without a stop; a line was torn by the crash."""
    path = tmp_path / "deep" / "watch.csv"

    def run(steps, **where):
        measures = [planted("sum", total)]
        watch = Watch(MODEL.apply, "mse", X, Y, every=2, measures=measures, budget=None, **where)
        for step in steps:
            watch(step, start(step), loss=float(step))
        return watch

    whole = run(range(20))
    run(range(11), csv=path)
    with path.open("a") as file:
        file.write("12,0.1,su")
    resumed = run(range(5, 20), csv=path)  # from a checkpoint before the crash
    for name in ("sum", "loss"):
        for one, other in zip(resumed.curve(name), whole.curve(name), strict=True):
            np.testing.assert_array_equal(one, other)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows if row["measure"] == "sum"] == list(range(0, 20, 2))
    assert Table(path).entries == [
        each._replace(seconds=mine.seconds)
        for each, mine in zip(resumed.entries, Table(path).entries, strict=True)
    ]


def test_initial_params_are_not_guessed_when_a_run_goes_on(tmp_path):
    def distance(subject):
        moved = jax.tree.map(lambda a, b: abs(a - b).max(), subject.params, subject.initial_params)
        return reading(float(max(jax.tree.leaves(moved))))

    measures = [planted("distance", distance, needs=("initial_params",))]
    where = {"every": 1, "measures": measures, "budget": None, "csv": tmp_path / "watch.csv"}
    watch = Watch(MODEL.apply, "mse", X, Y, **where)
    watch(0, start(0))
    watch(1, start(1))
    assert watch.curve("distance").values[0] == 0 < watch.curve("distance").values[1]
    again = Watch(MODEL.apply, "mse", X, Y, **where)
    with pytest.warns(RuntimeWarning, match="initial_params="):
        again(2, start(2))
    assert again.curve("distance").steps.tolist() == [0, 1]
    told = Watch(MODEL.apply, "mse", X, Y, initial_params=start(0), **where)
    told(2, start(0))
    assert told.curve("distance").values[-1] == 0


@pytest.mark.parametrize("text", ["a,b,c\n1,2,3\n", "something else", "step,seconds\n"])
def test_a_file_that_is_not_its_own_is_refused(tmp_path, text):
    path = tmp_path / "watch.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match="csv must be a new file"):
        Watch(MODEL.apply, "mse", X, Y, csv=path)
    assert path.read_text() == text


def test_a_line_that_is_not_its_own_is_refused(tmp_path):
    path = tmp_path / "watch.csv"
    Table(path).append(Entry(1, 0.5, "a", 1.0, 1.0, 1.0, "exact", "measured"))
    path.write_text(path.read_text() + "what,is,this\n")
    with pytest.raises(ValueError, match="line 3"):
        Table(path)


@pytest.mark.parametrize("value", [1e-320, -math.inf, 0.1 + 0.2, 3.0])
def test_numbers_survive_the_table(tmp_path, value):
    entry = Entry(7, 0.25, 'a "b", c', value, -value, math.inf, "95 %", "measured")
    Table(tmp_path / "t.csv").append(entry)
    assert Table(tmp_path / "t.csv").entries == [entry]


def fields(content):
    """The fields of a message of Protocol Buffers: an independent reader."""
    found, place = [], 0

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = content[place]
            place, value, shift = place + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while place < len(content):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            found.append((number, varint()))
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        piece, place = content[place : place + size], place + size
        found.append(
            (number, struct.unpack({1: "<d", 5: "<f"}[kind], piece)[0] if kind in (1, 5) else piece)
        )
    return found


def records(content):
    """The records of a file of events, whose checksums are computed bit by bit."""

    def crc(data):
        value = 0xFFFFFFFF
        for bit in (byte >> i & 1 for byte in data for i in range(8)):
            value = value >> 1 ^ (0x82F63B78 if (value ^ bit) & 1 else 0)
        value ^= 0xFFFFFFFF
        return ((value >> 15 | value << 17) & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF

    while content:
        size, check = struct.unpack("<QI", content[:12])
        data, last = content[12 : 12 + size], struct.unpack("<I", content[12 + size : 16 + size])[0]
        assert check == crc(content[:8])
        assert last == crc(data)
        yield fields(data)
        content = content[16 + size :]


def test_events_are_read_by_an_independent_reader(tmp_path):
    file = EventFile(tmp_path)
    file.write(300, {"theory/sharpness": 2.5, "big": 1e300, "none": math.nan})
    first, second = records(file.path.read_bytes())
    assert (3, b"brain.Event:2") in first
    message = dict(second)
    assert message[2] == 300
    numbers = [dict(fields(value)) for _, value in fields(message[5])]
    assert [number[1] for number in numbers] == [b"theory/sharpness", b"big", b"none"]
    assert numbers[0][2] == 2.5
    assert numbers[1][2] == math.inf
    assert math.isnan(numbers[2][2])


def test_the_checksum_is_that_of_the_standard():
    """Oracle: RFC 3720, B.4: 32 zeros, 32 ones."""
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43


def test_a_watch_writes_events_and_calls_back(tmp_path):
    got = []
    watch = Watch(
        MODEL.apply,
        "mse",
        X,
        Y,
        every=1,
        measures=["sharpness"],
        budget=None,
        tensorboard=tmp_path,
        callback=got.append,
        learning_rate=0.1,
    )
    watch(0, start(), loss=2.0)
    assert got[0] == {"step": 0, "theory/learning_rate": 0.1, "theory/loss": 2.0}
    entry = watch.entries[-1]
    assert got[1] == {
        "step": 0,
        "theory/sharpness": entry.value,
        "theory/sharpness_low": entry.low,
        "theory/sharpness_high": entry.high,
    }
    (path,) = tmp_path.iterdir()
    assert len(list(records(path.read_bytes()))) == 3
    json.dumps(got)


def test_the_edge_is_drawn_and_the_page_stands_alone(tmp_path):
    """Oracle: 2/η by hand."""
    watch = Watch(
        MODEL.apply, "mse", X, Y, every=1, measures=["sharpness"], budget=None, learning_rate=0.1
    )
    watch(0, start())
    watch(1, descend(start()), learning_rate=0.2)
    lines = watch.plot().axes[0].lines
    dashed = [line for line in lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(np.asarray(dashed[0].get_ydata(), float), [20.0, 10.0])
    page = watch.page(tmp_path / "watch.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "sharpness λ_max(∇²L)" in page
    assert "http-equiv" in page
    assert "<script" not in page
    assert "src=" not in page
    assert "sharpness" in watch._repr_html_()
    frame = watch.to_pandas()
    assert frame[frame.measure == "sharpness"].step.tolist() == [0, 1]


def test_parameters_may_come_from_a_function_that_is_asked_when_needed():
    asked = []

    def params():
        asked.append(1)
        return start()

    watch = Watch(MODEL.apply, "mse", X, Y, every=10, measures=["sharpness"], budget=None)
    for step in range(30):
        watch(step, params)
    assert len(asked) <= 4
    assert watch.curve("sharpness").steps.tolist() == [0, 10, 20]


def test_parameters_of_sixteen_bits_are_measured_in_single_precision():
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), start())
    watch = Watch(MODEL.apply, "mse", X, Y, every=1, measures=["sharpness"], budget=None)
    with pytest.warns(UserWarning, match="float32"):
        watch(0, half)
    watch(1, half)
    values = watch.curve("sharpness").values
    np.testing.assert_allclose(values[1], values[0], rtol=0.03)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"every": 0}, "every must be"),
        ({"budget": 0.0}, "budget must be"),
        ({"measures": ["sharp"]}, "measures must be out of"),
    ],
)
def test_settings_that_make_no_sense_are_told(settings, words):
    with pytest.raises(ValueError, match=words):
        Watch(MODEL.apply, "mse", X, Y, **settings)


def test_mistakes_of_the_network_are_told_at_the_first_call():
    watch = Watch(MODEL.apply, "cross_entropy", X, jnp.arange(20) % 3, measures=["sharpness"])
    with pytest.raises(ValueError):
        watch(0, start())


def test_a_schedule_waits_for_what_it_costs():
    """Oracle: by hand. A start of 4 s in a budget of a tenth takes 40 s of training.

    If something has started already, half of the budget is for starts, and it takes 80 s.
    """
    clock = Clock()
    schedule = Schedule(every=1, budget=0.1, clock=clock)
    schedule.check = 4.0 / 5.0
    schedule.enter()
    schedule.leave()
    found = []
    for _ in range(100):
        clock.now += 1.0
        schedule.enter()
        schedule.leave()
        found.append((schedule.may_start([]), schedule.may_start(["other"])))
    assert [each.index(True) + 1 for each in zip(*found, strict=True)] == [40, 80]
