"""Where the results of scans go: a file for one, a folder for several."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndflow.errors import FileError
from ndflow.files.outputs import make_folder, outputs_for, safe_name


def same_name(image: str) -> str:
    return Path(image).name


def test_one_image_goes_to_a_file_and_several_to_a_folder(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    single = outputs_for(["a.nii"], tmp_path / "b.nii.gz", same_name)
    assert single == (None, [tmp_path / "b.nii.gz"])
    for place in (tmp_path / "there", f"{tmp_path}/there", f"{tmp_path}/new/"):
        assert outputs_for(["x/a.nii"], place, same_name) == (Path(place), [Path(place) / "a.nii"])
    for place in (tmp_path / "there", tmp_path / "new"):
        found = outputs_for(["x/a.nii", "y/b.nii.gz"], place, same_name)
        assert found == (place, [place / "a.nii", place / "b.nii.gz"])


def test_a_folder_is_made_but_not_the_one_it_lies_in(tmp_path: Path) -> None:
    make_folder(None)
    make_folder(tmp_path / "out")
    make_folder(tmp_path / "out")  # a second time does no harm
    assert (tmp_path / "out").is_dir()
    with pytest.raises(FileError, match="there is no folder"):
        make_folder(tmp_path / "no" / "out")
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(FileError):
        make_folder(tmp_path / "file" / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "out"]


@given(texts=st.lists(st.text("ab脳%~/\0é. "), min_size=2, max_size=6, unique=True))
def test_names_of_files_are_different_for_different_texts(texts: list[str]) -> None:
    names = [safe_name(text) for text in texts]
    assert len(set(names)) == len(texts)
    assert all(name.isprintable() and "/" not in name for name in names)
    assert safe_name("Köln 2") == "Köln 2"


@pytest.mark.parametrize(
    ("images", "place", "named"),
    [
        (("a.nii", "b.nii"), "out.nii.gz", "out.nii.gz: one file for 2 images.*folder"),
        (("a.nii", "b.nii"), "out.json", "out.json: one file for 2 images.*folder"),
        (("a.nii", "b.nii"), "taken", "taken: one file for 2 images.*folder"),
        (("x/a.nii", "y/a.nii"), "out", "^y/a.nii: "),
        (("x/a.nii", "x/a.nii"), "out", "^x/a.nii: "),
        (("x/a.nii", "x/a.nii.gz"), "out", "^x/a.nii.gz: "),
        (("a.img", "a.hdr"), "out", "^a.hdr: "),
    ],
)
def test_results_that_would_share_a_file_are_refused(
    tmp_path: Path, images: tuple[str, str], place: str, named: str
) -> None:
    (tmp_path / "taken").write_bytes(b"mine")
    with pytest.raises(FileError, match=named):
        outputs_for(images, tmp_path / place, same_name)
