"""`list`, `show`, help and completion: what only reads the tree, and does it at once."""

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest

from theorylab.cli.commands import COMMANDS
from theorylab.cli.completion import candidates
from theorylab.sources import DOCUMENTS, document

HEAVY = {"jax", "jaxlib", "numpy", "matplotlib", "scipy", "rich", "optax"}


def test_list_names_every_experiment(theorylab, tree):
    answer = theorylab("list")
    assert answer.code == 0
    assert answer.err == ""
    assert [line.split()[0] for line in answer.out.splitlines()] == list(tree.names())
    assert "A coin falls on heads" in answer.out
    assert "\033" not in answer.out


def test_list_in_json_and_filtered(theorylab):
    listed = json.loads(theorylab("list", "--json").out)
    assert [each["name"] for each in listed] == ["toys/coin", "toys/dice"]
    assert listed[0]["sources"] == ["arora · concentration-lab · Thm 1", "zhu · coin · Eq. 2"]
    assert [each["claims"] for each in listed] == [2, 1]
    assert "dice" not in theorylab("list", "--source", "arora").out
    assert "dice" in theorylab("list", "--source=zhu").out
    assert theorylab("list", "--source", "karp") == (0, "", "")
    assert len(theorylab("list", "--concept", "toys").out.splitlines()) == 2


def test_list_by_system_says_which_have_claims_and_where(theorylab):
    systems = json.loads(theorylab("list", "--by", "system", "--json").out)
    tested = {each["system"]: each for each in systems if each["claims"]}
    assert sorted(tested) == ["coin", "concentration-lab", "dice"]
    about = tested["concentration-lab"]
    assert (about["claims"], about["experiments"]) == (1, ["toys/coin"])
    assert (about["title"], about["place"], about["status"]) == ("Tail bounds", "§1.1.1", "tested")
    assert tested["dice"]["title"] == ""  # no system of the document has this id
    assert "zhu · dice" in theorylab("list", "--by", "system").out


def test_systems_without_claims_are_listed_unless_experiments_are_chosen(theorylab):
    """Oracle: the five documents, counted, and two ids of the toys' own."""
    systems = json.loads(theorylab("list", "--by", "system", "--json").out)
    assert len(systems) == sum(len(document(key).systems) for key in DOCUMENTS) + 2
    statuses = {each["system"]: each["status"] for each in systems}
    assert (statuses["hvp"], statuses["pac-bayes"]) == ("tool only", "not there yet")
    chosen = json.loads(theorylab("list", "--by", "system", "--concept", "toys", "--json").out)
    assert len(chosen) == 3
    karp = theorylab("list", "--by", "system", "--source", "karp")
    assert karp.out.count("not there yet") == 29
    assert "30 systems: 29 not there yet, 1 tool only." in karp.err


def test_show_says_all_about_an_experiment(theorylab):
    answer = theorylab("show", "toys/coin")
    assert answer.code == 0
    for text in (
        "A coin falls on heads as often as its bias says.",
        "the share of heads p̂ lies near p",
        r"\hat p \to p",
        "float64",
        "--num-throws 1000",
        "how often it is thrown",
        "one of nothing, run, judge, plot, finding",
        "--weights 1.0,2.5",
        "smoke    num_throws=100 seed=-1",
        "The share is no more than 1. (control)",
        "arora · concentration-lab · Thm 1",
        "arora: S. Arora et al., Theory of Deep Learning",
    ):
        assert text in answer.out


def test_show_in_json(theorylab, tree):
    shown = json.loads(theorylab("show", "toys/coin", "--json").out)
    assert shown["presets"]["paper"]["num_throws"] == 10**6
    assert [claim["kind"] for claim in shown["claims"]] == ["claim", "control"]
    assert shown["fields"][0] == {
        "name": "num_throws",
        "type": "int",
        "domain": "a whole number",
        "default": 1000,
        "help": "how often it is thrown",
    }


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("help",), ("run", "--help")])
def test_help_goes_to_standard_output(theorylab, arguments):
    answer = theorylab(*arguments)
    assert (answer.code, answer.err) == (0, "")
    assert "usage: theorylab" in answer.out


def test_help_for_an_experiment_has_its_fields(theorylab):
    assert "--num-throws 1000" in theorylab("run", "toys/coin", "--help").out


def test_help_for_list_names_the_documents(theorylab):
    assert "L. Zhu, Toward Understanding the Dynamics" in theorylab("list", "--help").out


def test_a_concept_offers_a_few_of_its_experiments(theorylab, tree, tmp_path):
    folder = tmp_path / "experiments/toys"
    folder.mkdir(parents=True)
    for number in range(7):
        (folder / f"number_{number}.py").write_text("")
    object.__setattr__(tree, "root", folder.parent)
    answer = theorylab("run", "toys")
    assert answer.err.count("toys/number") == 5
    assert answer.err.endswith("theorylab list --concept toys shows all 7.\n")


def test_an_old_name_still_works_and_the_new_one_is_said(theorylab, tree):
    object.__setattr__(tree, "renames", {"toys/euro": "toys/coin"})
    new, old = theorylab("show", "toys/coin"), theorylab("show", "toys/euro")
    assert (old.code, old.out) == (0, new.out)
    assert old.err == "theorylab: toys/euro is now toys/coin.\n"
    assert new.err == ""
    assert "--num-throws 1000" in theorylab("run", "toys/euro", "--help").out
    assert "--num-throws" in candidates(tree, ["run", "toys/euro", "--num"])


def test_themes_are_listed_completed_and_offered(theorylab, tree, tmp_path):
    shutil.copytree(tree.root, tmp_path / "experiments")
    (tmp_path / "experiments/toys/money").mkdir()
    shutil.move(tmp_path / "experiments/toys/coin.py", tmp_path / "experiments/toys/money")
    object.__setattr__(tree, "root", tmp_path / "experiments")
    assert theorylab("show", "toys/money/coin").out.startswith("toys/money/coin\n")
    (row,) = theorylab("list", "--concept", "toys/money").out.splitlines()
    assert row.startswith("toys/money/coin ")
    assert len(theorylab("list", "--concept", "toys").out.splitlines()) == 2
    assert (
        "no experiment 'toys/coin'. Did you mean toys/money/coin"
        in theorylab("show", "toys/coin").err
    )
    for said in ("coin", "money/coin"):
        assert theorylab("show", said).err.endswith(" Did you mean toys/money/coin?\n")
    assert candidates(tree, ["run", "toys/m"]) == ["toys/money/coin"]
    assert candidates(tree, ["list", "--concept", ""]) == ["toys", "toys/money"]


def test_version(theorylab):
    assert theorylab("--version").out.startswith("theorylab 0.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "theorylab needs a command"),
        (("shwo",), "no command 'shwo'. Did you mean show?"),
        (
            ("xyzzy",),
            "It takes one of list, show, run, sweep, plot, record, report, examine, tour, forget,",
        ),
        (("show",), "show needs the name of one experiment, got none"),
        (("show", "toys/coin", "toys/dice"), "got toys/coin toys/dice"),
        (("show", "toys/coni"), "no experiment 'toys/coni'. Did you mean toys/coin"),
        (("show", "dice"), "Did you mean toys/dice?"),
        (("show", "toys"), "Did you mean toys/coin or toys/dice?"),
        (("show", "qqqqq"), "theorylab list shows them all"),
        (("show", "../toys/coin"), "no experiment"),
        (("list", "toys"), "list takes no names, got 'toys'"),
        (("list", "--concept", "toy"), "Did you mean toys?"),
        (("list", "--source", "knuth"), "arora, golikov, karp, shi, zhu, got 'knuth'. theorylab"),
        (("list", "--by", "name"), "--by must be one of system, got 'name'"),
        (("list", "--jsn"), "list has no option --jsn. Did you mean --json?"),
        (("list", "--json=yes"), "--json takes no value, got 'yes'"),
        (("list", "--concept"), "--concept needs a value, got nothing"),
        (("list", "--concept", "--json"), "--concept needs a value, got --json"),
        (("completion", "tcsh"), "completion needs one of bash, zsh, fish, got tcsh"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_two(theorylab, arguments, message):
    answer = theorylab(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert answer.err.count("\n") == 1


def test_an_experiment_that_cannot_be_read_is_named_and_left_out(theorylab, tree, tmp_path):
    shutil.copytree(tree.root, tmp_path / "experiments")
    (tmp_path / "experiments/toys/wrong.py").write_text('"""Title."""\nPRECISION = 3\n')
    object.__setattr__(tree, "root", tmp_path / "experiments")
    before = theorylab("list")
    assert (before.code, before.err.count("\n")) == (0, 1)
    assert "toys/wrong.py:1: " in before.err
    assert [line.split()[0] for line in before.out.splitlines()] == ["toys/coin", "toys/dice"]
    (tmp_path / "experiments/toys/nowhere.py").symlink_to("nothing")
    after = theorylab("list", "--by", "system")
    assert (after.code, after.err.count("\n")) == (0, 3)  # the last line counts the systems
    assert "toys/nowhere cannot be read: No such file" in after.err
    assert theorylab("show", "toys/wrong").code == 2
    assert theorylab("show", "toys/coin").code == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["s"], ["show", "sweep"]),
        (["f"], ["fetch", "find", "forget"]),
        (["fetch", "m"], ["mnist"]),
        (["--"], ["--help", "--version"]),
        ([""], ["--help", "--version", *sorted(command.name for command in COMMANDS)]),
        (["run", "toys/c"], ["toys/coin"]),
        (["run", "toys/coin", ""], ["toys/coin", "toys/dice"]),
        (["run", "toys/coin", "--s"], ["--seconds", "--seed", "--sizes", "--surprising"]),
        (["run", "toys/dice", "--s"], ["--seed"]),
        (["run", "toys/dice", "--preset", ""], ["default", "smoke"]),
        (["run", "--preset", ""], ["default", "paper", "smoke"]),
        (["run", "toys/coin", "--breaks", "r"], ["run"]),
        (["run", "toys/coin", "--surprising", ""], ["false", "true"]),
        (["run", "toys/coin", "--bias", ""], []),
        (["run", "--out", ""], []),
        (["list", "--concept", ""], ["toys"]),
        (["list", "--source", "a"], ["arora"]),
        (["list", "--by", ""], ["system"]),
        (["find", "--experiment", "toys/c"], ["toys/coin"]),
        (["export", ""], []),
        (["list", ""], []),
        (["show", "toys/coin", "--"], ["--help", "--json"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["nonsense", ""], []),
    ],
)
def test_candidates_are_what_may_follow(tree, words, expected):
    assert candidates(tree, words) == expected


def test_completion_words_come_one_per_line(theorylab):
    assert theorylab("_complete", "run", "toys/").out == "toys/coin\ntoys/dice\n"
    assert theorylab("_complete").code == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_printed_and_fit_their_shell(theorylab, shell):
    answer = theorylab("completion", shell)
    assert answer.code == 0
    assert "theorylab _complete" in answer.out
    if shutil.which(shell):
        run = subprocess.run([shell, "-n"], input=answer.out, text=True, capture_output=True)
        assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_as_a_user_sees_it(theorylab):
    """Oracle: bash itself, with `theorylab` replaced by a function that shows what it is asked."""
    bash = theorylab("completion", "bash").out + (
        'theorylab() { printf "<%s>\\n" "$@"; }\n'
        'COMP_WORDS=(theorylab run "toys/c"); COMP_CWORD=2; _theorylab\n'
        'printf "%s " "${COMPREPLY[@]}"'
    )
    run = subprocess.run(["bash", "-c", bash], capture_output=True, text=True, check=True)
    assert run.stdout == "<_complete> <run> <toys/c> "


READERS = [
    ("--help",),
    ("--version",),
    ("list",),
    ("list", "--json"),
    ("list", "--by", "system"),
    ("show", "toys/coin"),
    ("run", "toys/coin", "--help"),
    ("run", "toys/coin", "--bias", "much"),
    ("run", "toys/nothing"),
    ("completion", "bash"),
    ("_complete", "run", "toys/coin", "--"),
]


def test_what_only_reads_imports_nothing_heavy(script):
    """Oracle: `sys.modules` of a fresh interpreter, after one command upon the other."""
    script += f"""
for arguments in {READERS!r}:
    main(arguments, tree)
    main(arguments)
print(*sys.modules, file=sys.stderr)
"""
    run = subprocess.run([sys.executable, "-c", script, "--help"], capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in run.stderr.splitlines()[-1].split()}
    assert "theorylab" in loaded
    assert loaded & HEAVY == set()


def test_a_reader_that_goes_away_is_no_error():
    """As in `theorylab list | true`."""
    reading, writing = os.pipe()
    os.close(reading)
    run = subprocess.run(
        [sys.executable, "-m", "theorylab", "--help"], stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    assert (run.returncode, run.stderr) == (141, b"")


def test_an_alphabet_without_greek_is_no_error():
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    for arguments in (["--help"], ["list", "--json"]):
        command = [sys.executable, "-m", "theorylab", *arguments]
        run = subprocess.run(command, env=environment, capture_output=True, check=True)
        assert run.stdout.isascii()
        if "--json" in arguments:
            json.loads(run.stdout)


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_closed_streams_are_no_error():
    command = f"{shlex.quote(sys.executable)} -m theorylab list >&- 2>&-"
    assert subprocess.run(["sh", "-c", command]).returncode == 0


def test_list_can_be_searched(theorylab):
    """In names, titles, descriptions, claims and sources; all words, large or small."""
    for words, found in {
        "COIN": ["toys/coin"],
        "seven": ["toys/dice"],
        "share heads": ["toys/coin"],
        "concentration-lab": ["toys/coin"],
        "coin seven": [],
        "toys": ["toys/coin", "toys/dice"],
    }.items():
        answer = theorylab("list", "--search", words)
        assert [line.split()[0] for line in answer.out.splitlines()] == found


@pytest.mark.parametrize(
    "arguments",
    [
        ("sh\now",),
        ("show", "toys/\ncoin"),
        ("list", "--concept", "a\r\nb"),
        ("list", "--json\n--x"),
        ("run", "toys/coin", "--bias\n", "1"),
        ("run", "toys/coin", "--bias", "1\n2"),
        ("run", "toys/coin", "--preset", "sm\x85oke"),
        ("run", "toys/coin", "--out", "/proc/no\nwhere"),
        ("completion", "ba\u2028sh"),
        ("fetch", "mn\nist"),
        ("forget", "toys\n/coin"),
    ],
)
def test_every_refusal_is_one_line_whatever_the_arguments_hold(theorylab, arguments):
    answer = theorylab(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1


def test_a_document_of_ones_own_can_be_cited(theorylab, tree, tmp_path):
    shutil.copytree(tree.root, tmp_path / "experiments")
    dice = tmp_path / "experiments/toys/dice.py"
    text = dice.read_text(encoding="utf-8").replace('Source("zhu"', 'Source("jacot2018"')
    dice.write_text(text + '\nSOURCES = {"jacot2018": "A. Jacot et al., NTK, NeurIPS 2018"}\n')
    object.__setattr__(tree, "root", tmp_path / "experiments")
    assert "  jacot2018: A. Jacot et al., NTK, NeurIPS 2018" in theorylab("show", "toys/dice").out
    assert theorylab("list", "--source", "jacot2018").out.startswith("toys/dice ")
    dice.write_text(text)  # then it is called by its key
    assert "  jacot2018: jacot2018" in theorylab("show", "toys/dice").out
    dice.write_text(text + "\nSOURCES = {1: 2}\n")
    assert "SOURCES must map keys to titles" in theorylab("show", "toys/dice").err
