"""`examine`: a file that defines a network is run, and its card is printed, written and kept."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from theorylab.checkup import load
from theorylab.checkup.rows import MEASURES
from theorylab.cli import examining
from theorylab.cli.completion import candidates

MODEL = """
import jax.numpy as jnp

print("loading the model")
apply = lambda w, x: x @ w
params, x = jnp.ones((4, 1)), jnp.eye(4)
y = x[:, :1]
loss = "mse"
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Writes a file of the user's, whose folder is on the path of this test only."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = tmp_path / "mine"
    folder.mkdir()

    def write(text=MODEL, name="my_model.py"):
        path = folder / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return str(path)

    return write


def test_examine_prints_the_card_and_says_that_it_runs_the_file(theorylab, model):
    """Oracle: 2/n, the largest eigenvalue of the mean of squares on the identity, n = 4."""
    path = model()
    answer = theorylab("examine", path, "--only", "sharpness")
    assert answer.code == 0
    assert "sharpness λ_max(∇²L)  0.5" in answer.out
    assert "4 parameters · 4 inputs · 1 output · loss: squared, mean_entries" in answer.out
    assert "loading the model" not in answer.out
    assert f"examine runs {path}" in answer.err
    assert "loading the model" in answer.err
    assert "sharpness λ_max(∇²L) (0 %)" in answer.err


def test_json_stands_alone_on_standard_output(theorylab, model):
    answer = theorylab("examine", model(), "--only", "sharpness", "--json")
    page = json.loads(answer.out, parse_constant=pytest.fail)
    assert answer.code == 0
    assert [row["name"] for row in page["rows"]] == ["sharpness"]
    assert page["rows"][0]["value"] == pytest.approx(0.5)


def test_the_page_and_the_card_are_written(theorylab, model, tmp_path):
    page, card = tmp_path / "card.html", tmp_path / "card.npz"
    options = ("--only", "sharpness", "--page", str(page), "--save", str(card))
    answer = theorylab("examine", model(), *options)
    assert answer.code == 0
    assert "What theory says about this network" in page.read_text(encoding="utf-8")
    assert load(card).reading("sharpness").value == pytest.approx(0.5)
    assert str(page) in answer.err
    assert str(card) in answer.err


def test_an_option_goes_before_what_the_file_says(theorylab, model):
    path = model(MODEL + "\nlearning_rate = 0.1\nbudget = 3.0\n")
    told = examining.definitions(Path(path))
    assert told["learning_rate"] == 0.1
    answer = theorylab("examine", path, "--only", "sharpness", "--loss", "logistic")
    assert answer.code == 0
    assert "loss: logistic, mean" in answer.out


def test_a_file_may_have_a_function_that_returns_a_dict(theorylab, model):
    text = """
    import jax.numpy as jnp
    optimizer = object()  # means something else in this file

    def examine():
        x = jnp.eye(4)
        return dict(apply=lambda w, x: x @ w, params=jnp.ones((4, 1)), x=x, y=x[:, :1], loss="mse")
    """
    answer = theorylab("examine", model(text), "--only", "sharpness")
    assert answer.code == 0
    assert "0.5" in answer.out


def test_names_that_a_file_only_imports_are_not_taken_for_its_own(theorylab, model):
    """`from theorylab import examine, network` is what such files begin with."""
    answer = theorylab(
        "examine",
        model(f"from theorylab import examine, network\n{MODEL}"),
        "--only=sharpness",
    )
    assert answer.code == 0


def test_a_file_may_import_what_stands_beside_it_and_is_read_anew(theorylab, model):
    model("WIDTH = 4\n", name="beside_my_model.py")
    text = "from beside_my_model import WIDTH\n" + MODEL.replace("4", "WIDTH")
    assert "4 parameters" in theorylab("examine", model(text), "--only", "sharpness").out
    again = model(text.replace("WIDTH)", "6)").replace("(WIDTH,", "(6,"))
    assert "6 parameters" in theorylab("examine", again, "--only", "sharpness").out


def test_a_module_of_another_library_crosses_the_bridge(theorylab, model):
    """Oracle: the Hessian of a mean of squares of w·x + b on the identity, by hand."""
    pytest.importorskip("flax")
    text = """
    import flax.linen as nn
    import jax
    import jax.numpy as jnp

    network, x, loss = nn.Dense(1), jnp.eye(4), "mse"
    y = x[:, :1]
    variables = network.init(jax.random.key(0), x)
    """
    answer = theorylab("examine", model(text), "--only", "sharpness", "--json")
    assert answer.code == 0
    hessian = 2 / 4 * np.block([[np.eye(4), np.ones((4, 1))], [np.ones((1, 4)), 4 * np.eye(1)]])
    row = json.loads(answer.out)["rows"][0]
    top = np.linalg.eigvalsh(hessian)[-1]
    assert row["low"] - 1e-6 <= top <= row["high"] + 1e-6


BAD_FILES = {
    "raises": ("x = 1\nraise ValueError('two\\nlines')", "line 2 raised ValueError: two lines"),
    "does not parse": ("x = (1,\n", "must run without error, but line 1 raised SyntaxError"),
    "ends": ("import sys\nsys.exit(3)", "line 2 raised SystemExit: 3"),
    "imports": ("import nothing_of_that_name", "line 1 raised ModuleNotFoundError"),
    "defines nothing": ("", "it lacks apply, params, x, y."),
    "lacks a name": (MODEL.replace("y = x", "z = x"), "it lacks y."),
    "function": ("def examine():\n    return 3", "must return a dict with apply, params, x and y"),
    "function raises": ("def examine():\n    return 1 / 0", "line 2 raised ZeroDivisionError"),
    "function knows": ("def examine():\n    return {'lr': 1}", "must name what examine knows"),
    "other name": (f"{MODEL}\noptimizer = object()", "define examine() that returns a dict"),
    "NaN": (f"{MODEL}\nparams = params * jnp.nan", "params must be finite, got NaN"),
    "lengths": (f"{MODEL}\ny = y[:2]", "y must have a target for each of the 4 inputs"),
    "statistics": (
        f"{MODEL}\nx = x + 1.0 * jnp.arange(4)[:, None]\napply = lambda w, x: (x - x.mean(0)[None])"
        " @ w",
        "apply must treat every input by itself",
    ),
    "integers": (f"{MODEL}\nparams = params.astype(int)", "params must hold floating arrays only"),
    "missing parameter": (
        f"{MODEL}\napply = lambda w, x: x @ w['a']\nparams = {{'b': params}}",
        "apply must take these params and inputs of shape (4, 4), but it raised KeyError: 'a'",
    ),
    "labels": (f"{MODEL}\nloss = 'logistic'\ny = 3 * y", "y must hold ±1, or 0 and 1"),
    "empty batch": (f"{MODEL}\nx, y = x[:0], y[:0]", "x must have shape (n, ...) with n >= 1"),
    "device": (
        f"{MODEL}\nclass Tensor:\n    dtype, shape, ndim, device = 'float32', (4, 1), 2, 'cuda:0'"
        "\nparams = Tensor()",
        "params must hold arrays of JAX or NumPy, got a Tensor on cuda:0",
    ),
    "network ends": (
        f"{MODEL}\ndef apply(w, x):\n    raise SystemExit(7)",
        "apply must take these params and inputs, but it raised SystemExit: 7",
    ),
    "bridge": (f"{MODEL}\nnetwork, apply = 3, None", "network must be a module of PyTorch, Flax"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_cannot_be_examined_ends_in_one_line(theorylab, model, tmp_path, name):
    """Oracle: exit code 2, one line of the command's own, and no file."""
    text, words = BAD_FILES[name]
    page = tmp_path / "page.html"
    answer = theorylab("examine", model(text), "--page", str(page), "--save", f"{page}.npz")
    assert answer.code == 2
    assert answer.out == ""
    (line,) = (
        line
        for line in answer.err.splitlines()
        if line.startswith("theorylab: ") and "examine runs" not in line
    )
    assert words in line
    assert "Traceback" not in answer.err
    assert not list(tmp_path.glob("page*"))


BAD_USE = [
    ((), "needs one Python file that defines the network, got none"),
    (("nothing.py",), "got nothing.py (there is no such file)"),
    (("{model}", "other.py"), "got 2:"),
    ((".",), "(a folder)"),
    (("{model}", "--only", "sharpnes"), "got 'sharpnes'. Did you mean sharpness?"),
    (("{model}", "--force", "sharpnes"), "force must name rows out of"),
    (("{model}", "--only", "a,,b"), "--only needs names separated by commas, got 'a,,b'"),
    (("{model}", "--budget", "0"), "--budget must be a positive number, got '0'"),
    (("{model}", "--budget", "long"), "--budget must be a positive number, got 'long'"),
    (("{model}", "--learning-rate", "inf"), "--learning-rate must be a positive number"),
    (("{model}", "--momentum", "1"), "--momentum must be a number in [0, 1), got '1'"),
    (("{model}", "--batch-size", "2.5"), "--batch-size must be a whole number of at least 1"),
    (("{model}", "--optimizer", "adma"), "--optimizer must be one of sgd, momentum"),
    (("{model}", "--loss", "l2"), "--loss must be one of cross_entropy, mse, logistic"),
    (("{model}", "--learnin-rate", "1"), "Did you mean --learning-rate?"),
    (("{model}", "--page", "/nowhere/card.html"), "--page must be in a folder that can be written"),
    (("{model}", "--page", "."), "--page must be a file, got the folder"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD_USE, ids=str)
def test_bad_use_is_refused_before_the_file_is_run(theorylab, model, arguments, words):
    path = model()
    answer = theorylab("examine", *(argument.format(model=path) for argument in arguments))
    assert answer.code == 2
    assert answer.out == ""
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_a_row_that_fails_is_shown_and_ends_in_3(theorylab, model, monkeypatch):
    """Oracle: a measure that raises."""

    def fail(subject):
        raise FloatingPointError("planted")

    rows = {"sharpness": replace(MEASURES["sharpness"], read=fail)}
    monkeypatch.setattr(examining, "MEASURES", rows)
    answer = theorylab("examine", model())
    assert answer.code == 3
    assert "failed: FloatingPointError: planted" in answer.out
    assert "these rows failed: sharpness." in answer.err


def test_a_check_up_that_breaks_off_ends_in_3(theorylab, model, monkeypatch, tmp_path):
    def fail(subject, measures, start):
        raise MemoryError("planted")

    monkeypatch.setattr(examining, "card_of", fail)
    answer = theorylab("examine", model(), "--page", str(tmp_path / "card.html"))
    assert answer.code == 3
    assert "the check-up of my_model.py broke off: MemoryError: planted" in answer.err
    assert not (tmp_path / "card.html").exists()


def test_ctrl_c_ends_in_130(model, script, folders):
    """Oracle: the exit code of a process that hears a signal while it works."""
    path = model("import time\nprint('asleep', flush=True)\ntime.sleep(60)\n")
    # Whoever runs the tests in the background may have it ignore the signal, and its children too.
    hearing = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{hearing}\n{script}\nsys.exit(code)", "examine", path],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "asleep" in line:
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    try:
        _, rest = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "interrupted" in rest
    assert "Traceback" not in rest


def test_help_says_what_the_file_defines(theorylab):
    answer = theorylab("examine", "--help")
    assert answer.code == 0
    assert "--page FILE" in answer.out
    assert "apply, params, x and y" in answer.out


def test_completion_knows_the_command_its_options_and_their_values(tree):
    assert candidates(tree, ["exa"]) == ["examine"]
    assert "--page" in candidates(tree, ["examine", "--p"])
    assert "adam" in candidates(tree, ["examine", "m.py", "--optimizer", "a"])
    assert candidates(tree, ["examine", ""]) == []  # the shell completes files
