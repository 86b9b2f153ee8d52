"""The tree against Python itself: what is read equals what importing gives."""

import dataclasses
import subprocess
import sys
import typing
from pathlib import Path

import pytest

from theorylab.claims.claim import Kind
from theorylab.experiments.entry import Entry, Place, name_of
from theorylab.experiments.reader import TreeError, read
from theorylab.experiments.renames import RENAMES
from theorylab.experiments.tree import EXPERIMENTS, Tree
from theorylab.fields import ImageSet, fitted
from theorylab.sources import DOCUMENTS

TESTS = Path(__file__).parents[1]
TOYS = Tree(TESTS / "toylab/experiments", "toylab.experiments")
EVERYTHING = [(EXPERIMENTS, name) for name in EXPERIMENTS.names()]
EVERYTHING += [(TOYS, name) for name in TOYS.names()]


@pytest.fixture(params=EVERYTHING, ids=lambda pair: pair[1])
def both(request, monkeypatch) -> tuple[Entry, typing.Any]:
    """An experiment, read and imported."""
    tree, name = request.param
    monkeypatch.setattr(sys, "path", [str(TESTS), *sys.path])
    return tree.entry(name), tree.load(name)


def test_texts_are_the_modules_own(both):
    entry, module = both
    assert module.__doc__.startswith(entry.title)
    assert entry.description in "\n".join(line.strip() for line in module.__doc__.splitlines()) or (
        entry.description.splitlines()[0] in module.__doc__
    )
    assert (entry.precision, entry.formula) == (module.PRECISION, module.FORMULA)
    assert entry.summary == module.Config.__doc__


def test_fields_and_presets_are_the_configs_own(both):
    entry, module = both
    fields = dataclasses.fields(module.Config)
    assert [field.name for field in entry.fields] == [field.name for field in fields]
    configs = {"default": module.Config(), **module.PRESETS}
    assert entry.presets == {name: dataclasses.asdict(each) for name, each in configs.items()}
    assert {field.name: field.default for field in entry.fields} == entry.presets["default"]


def test_types_are_the_configs_own_and_fit_the_defaults(both):
    """What the reader makes of an annotation is what Python makes of it."""
    entry, module = both
    hints = typing.get_type_hints(module.Config, include_extras=True)
    for field in entry.fields:
        assert field.hint == hints[field.name]
        assert fitted(field.name, field.hint, field.default) == field.default


def test_claims_are_the_modules_own(both):
    entry, module = both
    imported = [
        (claim.statement, dataclasses.asdict(claim.source), claim.kind, claim.formula)
        for claim in module.CLAIMS
    ]
    found = [
        (claim.statement, dataclasses.asdict(claim.source), claim.kind, claim.formula)
        for claim in entry.claims
    ]
    assert found == imported
    for claim in entry.claims:
        assert claim.kind in typing.get_args(Kind)
        assert claim.source.key in DOCUMENTS


# Experiments in which no setting is known where the effect must be absent.
WITHOUT_CONTROL = {"kernels/finite/drift"}  # before training nothing moves, whatever the code


def test_every_experiment_has_a_negative_control_and_a_printed_one_its_correction():
    for entry in EXPERIMENTS.entries():
        kinds = [claim.kind for claim in entry.claims]
        has_control = entry.name not in WITHOUT_CONTROL
        assert ("control" in kinds) == has_control, f"{entry.name} has no negative control"
        assert ("printed" in kinds) <= ("corrected" in kinds), f"{entry.name} corrects nothing"
        assert set(entry.presets) == {"smoke", "default", "paper"}


def test_what_is_printed_is_quoted_and_quotes_are_short():
    """That they stand in the texts, which are no part of the project, `tools/quotes.py` checks."""
    for entry in EXPERIMENTS.entries():
        for claim in entry.claims:
            assert claim.quote or claim.kind != "printed", f"{entry.name}: {claim.statement}"
            letters = sum(each.isalnum() for each in claim.quote)
            assert not claim.quote or letters >= 12, f"{entry.name}: {claim.quote!r} is anywhere"
            assert len(claim.quote) <= 200, f"{entry.name}: {claim.quote!r} is long"


def test_the_tour_goes_through_experiments_that_exist():
    assert set(EXPERIMENTS.tour) <= set(EXPERIMENTS.names())


def test_old_names_lead_to_experiments_and_are_none_themselves():
    names = set(EXPERIMENTS.names())
    assert RENAMES
    for old, new in RENAMES.items():
        assert new in names, f"{old} leads nowhere"
        assert old not in names, f"{old} is there, and moved"
        assert EXPERIMENTS.has(old)


def test_every_name_is_the_path_of_its_entry():
    """Oracle: the files below the root, by a walk of the folders."""
    walked = [
        path.relative_to(EXPERIMENTS.root).with_suffix("").as_posix()
        for folder in EXPERIMENTS.root.iterdir()
        if folder.is_dir()
        for path in folder.rglob("*.py")
        if not path.name.startswith("_")
    ]
    assert list(EXPERIMENTS.names()) == sorted(walked)
    assert max(name.count("/") for name in walked) >= 2
    assert [entry.name for entry in EXPERIMENTS.entries()] == sorted(walked)


def test_names_have_any_depth_and_private_modules_are_no_experiments(tmp_path):
    root = tmp_path / "experiments/lab/experiments"  # the nearest folder of that name is the tree
    for name in ("a", "b/c", "b/d/e/f", "b/_shared", "b/__init__", "_b/c", "b/.d"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / f"{name}.py").write_text(GOOD)
    tree = Tree(root, "lab.experiments")
    assert tree.names() == ("b/c", "b/d/e/f")  # what is beside the rooms is machinery
    assert [entry.name for entry in tree.entries()] == ["b/c", "b/d/e/f"]
    assert {entry.concept for entry in tree.entries()} == {"b"}
    assert tree.module("b/d/e/f") == "lab.experiments.b.d.e.f"
    assert name_of(tmp_path / "elsewhere/mine.py") == "mine"


def test_help_is_the_comment_beside_a_field_also_behind_a_bracket():
    helps = {field.name: field.help for field in TOYS.entry("toys/coin").fields}
    assert helps["num_throws"] == "how often it is thrown"
    assert helps["weights"] == "of its sides"
    assert helps["bias"] == ""


def test_a_named_source_is_found():
    assert TOYS.entry("toys/coin").claims[0].source == Place("arora", "concentration-lab", "Thm 1")


GOOD = '''\
"""Title."""
PRECISION = "float64"
FORMULA = "x"
S = Source("zhu", "a", "b")
@dataclass(frozen=True)
class Config:
    width: int = 1
PRESETS = {"smoke": Config(width=2)}
CLAIMS = (S.claim("It holds.", judge),)
'''


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"""Title."""', "", "docstring"),
        ('"float64"', '"float16"', "PRECISION must be one of"),
        ('FORMULA = "x"', "", "needs a literal FORMULA"),
        ('"x"', "3", "FORMULA must be a literal str, got 3"),
        ("class Config", "class Settings", "needs a class Config"),
        (
            "width: int = 1",
            "width: list[int] = 1",
            r"the type of a field must be one of theorylab.fields, got list\[int\]",
        ),
        ("width: int = 1", "width: int", "the field width needs a default"),
        ("width: int = 1", "out: int = 1", "must not be named out"),
        ("width: int = 1", "width: int = len([])", r":7: it must be literal .* got len\(\[\]\)"),
        ('"smoke"', '"tiny"', "PRESETS must map names among"),
        ("width=2", "depth=2", "Config has no field 'depth'"),
        ("width=2", "**more", "literal"),
        ("S.claim(", "claim(", r":9: .*must be literal .* got claim\("),
        ("S.claim(", "S.rumour(", r":9: .*must be literal .* got S.rumour\("),
        ('S.claim("It holds.", judge)', '"It holds."', "claims of a Source only"),
        ("S.claim", "PRECISION.claim", "claim needs a Source before it, got 'float64'"),
        ('"It holds."', "3", ":9: statement must be a text, got 3"),
        ('Source("zhu", "a", "b")', 'Source("zhu", "a", 3)', "literal .* got S"),
        ("width: int = 1", 'width: int = -"a"', ":7: it must be computable, got -'a': bad operand"),
        ("width: int = 1", "width: int = 1 / 0", ":7: it must be computable, .*division by zero"),
        ("width: int = 1", "width: int = 9**9**9", ":7: .*an exponent is too large"),
        ("width: int = 1", 'width: int = "a" * 10**30', ":7: it must be computable"),
        ("width: int = 1", f"width: int = {'-' * 5000}1", "must not be nested so deep"),
        ('{"smoke"', "{{}", "unhashable"),
        ("S.claim", "T.claim", "literal .* got T"),
        ("judge)", 'judge, place="3")', "claim: .*place"),
        ("CLAIMS = (", "CLAIMS = ((", ":9: "),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(tmp_path, old, new, message):
    path = tmp_path / "wrong.py"
    path.write_text(GOOD)
    assert read(path).claims[0].statement == "It holds."
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(TreeError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:")


def test_shared_choices_are_known_by_their_name(tmp_path):
    path = tmp_path / "shared.py"
    path.write_text(GOOD.replace("width: int = 1", 'width: int = 1\n    images: ImageSet = "svhn"'))
    assert read(path).fields[1].choices == typing.get_args(ImageSet)


def test_limits_are_read_where_they_are_written(tmp_path):
    path = tmp_path / "limits.py"
    path.write_text(GOOD.replace("width: int = 1", "width: Annotated[int, within(1, 2**6)] = 4"))
    assert read(path).fields[0].domain == "a whole number, from 1 to 64"
    path.write_text(GOOD.replace("width: int = 1", "width: Annotated[int, within(1, 2**6)] = 65"))
    with pytest.raises(TreeError, match="width must be a whole number, from 1 to 64, got 65"):
        read(path)


def test_what_a_private_module_of_the_tree_defines_is_read_there(tmp_path):
    """A base of Config, the type of a field, a source and a constant."""
    folder = tmp_path / "experiments" / "toys"
    folder.mkdir(parents=True)
    (folder / "_shared.py").write_text(
        'Colour = Literal["red", "blue"]\nWHERE = Source("zhu", "c", "d")\nSTEPS = 7\n'
        "class Base(Seeded):\n    width: Count = 3  # of all layers\n    num_seeds: Count = 4\n"
    )
    path = folder / "one.py"
    text = GOOD.replace("class Config:", "class Config(Base):").replace("S.claim", "WHERE.claim")
    text = text.replace(
        "    width: int = 1", '    colour: Colour = "red"\n    steps: Count = STEPS'
    )
    imports = "from ._shared import Base, Colour\n"
    imports += "from toylab.experiments.toys._shared import STEPS, WHERE\n"
    path.write_text(text.replace('PRECISION = "float64"\n', 'PRECISION = "float64"\n' + imports))
    entry = read(path)
    assert [field.name for field in entry.fields] == [
        "num_seeds",
        "seed",
        "width",
        "colour",
        "steps",
    ]
    assert entry.presets["smoke"] == {
        "num_seeds": 4,
        "seed": 0,
        "width": 2,
        "colour": "red",
        "steps": 7,
    }
    assert entry.fields[2].help == "of all layers"
    assert entry.fields[3].choices == ("red", "blue")
    assert entry.claims[0].source == Place("zhu", "c", "d")


def test_an_erratum_is_two_claims(tmp_path):
    path = tmp_path / "erratum.py"
    pair = '*S.erratum(printed=("A.", lambda r, c: x), corrected=("B.", judge), formula="y")'
    path.write_text(GOOD.replace('S.claim("It holds.", judge)', pair))
    found = [(each.statement, each.kind, each.formula) for each in read(path).claims]
    assert found == [("A.", "printed", ""), ("B.", "corrected", "y")]
    pair = '*S.erratum(printed=("A.", judge, "x"), corrected=("B.", judge, "y"))'
    path.write_text(GOOD.replace('S.claim("It holds.", judge)', pair))
    assert [each.formula for each in read(path).claims] == ["x", "y"]
    path.write_text(GOOD.replace('S.claim("It holds.", judge)', "*S.erratum(printed=3)"))
    with pytest.raises(TreeError, match="erratum needs"):
        read(path)


def test_what_a_claim_says_besides_is_read(tmp_path):
    path = tmp_path / "details.py"
    details = 'quote="it holds", regime="width >= 2", demand="source"'
    details += ', expected="refuted", why="No."'
    path.write_text(GOOD.replace("judge)", f"judge, {details})"))
    claim = read(path).claims[0]
    assert (claim.quote, claim.regime, claim.expected, claim.why, claim.demand) == (
        "it holds",
        "width >= 2",
        "refuted",
        "No.",
        "source",
    )
    pair = '*S.erratum(("A.", judge), ("B.", judge), quote="it holds", regime="width >= 2")'
    path.write_text(GOOD.replace('S.claim("It holds.", judge)', pair))
    found = [(each.quote, each.regime) for each in read(path).claims]
    assert found == [("it holds", "width >= 2"), ("", "width >= 2")]


@pytest.mark.parametrize(
    ("regime", "message"),
    [
        ("width >= 3", r":9: some preset must be in the regime 'width >= 3', none is \(It holds"),
        ("depth >= 3", r":9: a regime must speak of fields of Config, got 'depth'"),
    ],
)
def test_a_regime_that_no_preset_is_in_is_an_error(tmp_path, regime, message):
    path = tmp_path / "regime.py"
    path.write_text(GOOD.replace("judge)", f'judge, regime="{regime}")'))
    with pytest.raises(TreeError, match=message):
        read(path)


def test_a_default_or_preset_outside_its_domain_is_named(tmp_path):
    path = tmp_path / "wrong.py"
    good = GOOD.replace("int = 1", "Count = 1")
    for old, new in (("Count = 1", "Count = 0"), ("width=2", "width=0")):
        path.write_text(good.replace(old, new))
        with pytest.raises(TreeError, match="width must be a whole number, at least 1, got 0"):
            read(path)


def test_tuples_of_claims_can_be_joined(tmp_path):
    path = tmp_path / "joined.py"
    claims = 'A = (S.claim("A.", judge),)\nCLAIMS = (*A, S.claim("B.", judge)) + A\n'
    path.write_text(GOOD.replace("CLAIMS = ", "OTHERS = ") + claims)
    assert [claim.statement for claim in read(path).claims] == ["A.", "B.", "A."]


def test_numbers_can_be_computed_and_floats_are_floats(tmp_path):
    path = tmp_path / "numbers.py"
    path.write_text(
        GOOD.replace("width: int = 1", "width: int = -2 * 10**3 + 4\n    rate: float = 1")
    )
    width, rate = read(path).fields
    assert width.default == -1996
    assert isinstance(rate.default, float)


def test_an_unknown_name_is_an_error():
    with pytest.raises(KeyError, match="no experiment 'toys/nothing'"):
        TOYS.entry("toys/nothing")


def test_reading_the_tree_imports_only_the_standard_library():
    """Oracle: the modules that a fresh interpreter holds afterwards."""
    code = (
        "import sys; from theorylab.experiments.tree import EXPERIMENTS as tree; tree.entries();"
        "print(*{name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    )
    run = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    foreign = {name for name in run.stdout.split() if not name.startswith("_")}
    assert foreign <= {"theorylab", "distutils"}, run.stdout + run.stderr
    assert "theorylab" in foreign
