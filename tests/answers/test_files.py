"""Answers come back from files as they were; what is no such file ends in one line."""

import io
import json
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.answers import Answer, load
from theorylab.curvature import Sharpness
from theorylab.numerics.spectra import Eigenpairs


class Own(Answer):
    """A class that is not of the library."""

    value: jax.Array


def spectrum() -> Eigenpairs:
    vectors = {"weight": jnp.ones((2, 3), jnp.bfloat16), "both": [np.arange(2), (None, 3)]}
    return Eigenpairs(jnp.array([3.0, 1 / 3]), vectors, jnp.array([np.nan, 1e-9]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a spectrum in it."""
    spectrum().save(tmp_path / "spectrum.npz")
    return tmp_path / "spectrum.npz"


def test_an_answer_comes_back_with_its_class_trees_types_and_numbers(path):
    """Oracle: what was saved, leaf by leaf and byte by byte."""
    found, saved = load(path), spectrum()
    assert type(found) is Eigenpairs
    assert jax.tree.structure(found) == jax.tree.structure(saved)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(saved), strict=True):
        assert type(one) is type(other)
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_float64_stays_where_jax_computes_in_float32(path):
    """Oracle: the number that was saved."""
    with jax.enable_x64(False):
        found = load(path)
        assert found.values.dtype == np.float64
        assert float(np.asarray(found.values)[1]) == 1 / 3


def test_numpy_reads_the_arrays_of_a_file(path):
    """Oracle: numpy, which knows nothing of answers, without pickle."""
    with np.load(path, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["values"], [3.0, 1 / 3])


def test_the_same_answer_gives_the_same_bytes(path):
    """Oracle: the first file."""
    spectrum().save(path.with_name("again.npz"))
    assert path.with_name("again.npz").read_bytes() == path.read_bytes()


def test_an_answer_that_cannot_be_saved_leaves_no_file(tmp_path):
    """Oracle: the folder, and the messages, written out."""
    for wrong, message in (
        (spectrum().replace(vectors=object()), "vectors must be made of arrays, .* got object"),
        (spectrum().replace(vectors={1: jnp.ones(2)}), "got dict"),
        (spectrum().replace(values=np.array([object()])), "values must have entries that are"),
        (Own(jnp.ones(2)), "of a class of theorylab to be saved"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong.save(tmp_path / "file.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_there_stays_if_writing_fails(path):
    """Oracle: its bytes before."""
    before = path.read_bytes()
    with pytest.raises(ValueError, match="must be made of arrays"):
        spectrum().replace(vectors=object()).save(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused_in_one_line(path, share):
    """Oracle: the beginning of a file is none."""
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert_refused(path, "not a zip file")


def test_a_file_in_which_a_byte_changed_is_refused(path):
    """Oracle: the sums that the archive has of its parts."""
    content = bytearray(path.read_bytes())
    place = content.index(np.float64(1 / 3).tobytes())
    content[place] ^= 1
    path.write_bytes(content)
    assert_refused(path, "CRC")


def test_other_files_are_refused(path):
    """Oracle: an archive of numpy, text, and a file that is not there."""
    np.savez(path, values=np.ones(2))
    assert_refused(path, "there is no 'answer.json'")
    path.write_text("values: 3")
    assert_refused(path, "not a zip file")
    with pytest.raises(FileNotFoundError):
        load(path.with_name("none.npz"))


def test_a_file_that_is_too_large_is_not_read(path):
    """Oracle: its size."""
    with pytest.raises(ValueError, match=r"at most 100 are read") as error:
        load(path, max_bytes=100)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "name",
    [
        "builtins:dict",
        "os:system",
        "theorylab.answers.base:Answer",
        "theorylab.curvature:Sharpness",  # where it is not defined
        "theorylab.curvature.sharpness:Blunt",
        "theorylab.no_such_room:Sharpness",
        "theorylab.numerics.spectra:Operator",
        "theorylab.__main__:Main",
        "theorylab.cli.__main__:Main",
    ],
)
def test_only_classes_of_answers_of_the_library_are_made(path, name):
    """Oracle: names that are none."""
    rewrite(path, lambda page: page["answer"].update({"class": name}))
    assert_refused(path, "is no class of answers of theorylab")


def test_fields_that_the_class_does_not_have_are_refused(path):
    """Oracle: the fields of the class."""
    rewrite(path, lambda page: page["answer"]["fields"].update({"more": 3}))
    assert_refused(path, "Eigenpairs has the fields")
    rewrite(path, lambda page: [page["answer"]["fields"].pop(name) for name in ("more", "values")])
    assert_refused(path, "Eigenpairs has the fields")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"array": "values", "dtype": "object", "by": "jax"}, "is of type"),
        ({"array": "values", "dtype": "float3", "by": "jax"}, "float3"),
        ({"array": "../values", "dtype": "float64", "by": "jax"}, "there is no"),
        ({"array": 3}, "no known kind"),
        ({"pickle": "…"}, "no known kind"),
        ({"float": "1e400"}, "no known kind"),
        ({"list": [{"list": {}}]}, "no known kind"),
    ],
)
def test_values_of_no_known_kind_are_refused(path, value, reason):
    """Oracle: pages that were changed by hand."""
    rewrite(path, lambda page: page["answer"]["fields"].update({"values": value}))
    assert_refused(path, reason)


@pytest.mark.parametrize("page", ["[]", "{}", '{"format": "other"}', "NaN", "[" * 10**5])
def test_pages_of_another_form_are_refused(path, page):
    """Oracle: pages that were written by hand."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("answer.json", page)
    assert_refused(path, ".")


def test_an_array_that_claims_more_than_its_bytes_is_refused(path):
    """Oracle: a header of numpy that claims 8 TB."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    )
    rewrite(path, lambda page: None, {"values.npy": header.getvalue()})
    assert_refused(path, "not what its bytes are")


def test_a_file_says_of_which_class_it_is(tmp_path):
    """Oracle: the words of the page, where a person reads them."""
    path = tmp_path / "sharpness.npz"
    Sharpness(jnp.array(2.5), jnp.array(1e-3)).save(str(path))
    with zipfile.ZipFile(path) as archive:
        page = json.loads(archive.read("answer.json"))
    assert page["answer"]["class"] == "theorylab.curvature.sharpness:Sharpness"
    assert float(load(str(path)).value) == 2.5


def rewrite(path: Path, change, parts: dict[str, bytes] | None = None) -> None:
    """Change the page of a file, and parts of it."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    page = json.loads(contents["answer.json"])
    change(page)
    contents |= {"answer.json": json.dumps(page).encode(), **(parts or {})}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def assert_refused(path: Path, reason: str) -> None:
    """One line that names the file and says why."""
    with pytest.raises(ValueError, match=reason) as error:
        load(path)
    message = str(error.value)
    assert message.startswith(f"{path} must be the whole file of an answer")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 320
