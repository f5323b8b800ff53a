"""Where the results of scans go: a file for one, a folder for several."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndflow.errors import FileError
from ndflow.files.outputs import make_folder, outputs_for, safe_name


def same_name(image: str) -> str:
    return Path(image).name


def test_one_image_goes_to_a_file(tmp_path: Path) -> None:
    assert outputs_for(["a.nii"], tmp_path / "b.nii.gz", same_name) == (
        None,
        [tmp_path / "b.nii.gz"],
    )


@pytest.mark.parametrize("existing", [False, True])
def test_several_images_go_to_a_folder(tmp_path: Path, existing: bool) -> None:
    folder = tmp_path / "out"
    if existing:
        folder.mkdir()
    found = outputs_for(["x/a.nii", "y/b.nii.gz"], folder, same_name)
    assert found == (folder, [folder / "a.nii", folder / "b.nii.gz"])


def test_one_image_goes_to_a_folder_that_exists_or_ends_with_a_slash(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for place in (tmp_path / "there", f"{tmp_path}/there", f"{tmp_path}/new/"):
        folder, files = outputs_for(["x/a.nii"], place, same_name)
        assert folder == Path(place)
        assert files == [Path(place) / "a.nii"]


@pytest.mark.parametrize("name", ["out.nii.gz", "out.json", "out.mgz", "out.hdr", "taken"])
def test_several_images_do_not_go_to_one_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "taken").write_bytes(b"mine")
    with pytest.raises(FileError, match="2 images") as caught:
        outputs_for(["a.nii", "b.nii"], tmp_path / name, same_name)
    assert "folder" in caught.value.hint


@pytest.mark.parametrize(
    "images",
    [("x/a.nii", "y/a.nii"), ("x/a.nii", "x/a.nii"), ("x/a.nii", "x/a.nii.gz"), ("a.img", "a.hdr")],
)
def test_results_that_would_share_a_name_are_refused(
    tmp_path: Path, images: tuple[str, str]
) -> None:
    with pytest.raises(FileError) as caught:
        outputs_for(images, tmp_path / "out", same_name)
    assert caught.value.path == images[1]
    assert caught.value.hint


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


LONG = st.builds(str.__mul__, st.text("ab脳%~/\0é", min_size=1, max_size=3), st.integers(1, 150))


@given(texts=st.lists(LONG, min_size=2, max_size=6, unique=True))
def test_names_of_files_are_short_and_different_for_different_texts(texts: list[str]) -> None:
    names = [safe_name(text) for text in texts]
    assert len(set(names)) == len(texts)
    assert all(len(name.encode()) <= 200 and name.isprintable() for name in names)
    again = [safe_name(name) for name in names]
    assert not set(again) & set(names) or all("%" not in name for name in set(again) & set(names))


def test_short_names_stay_as_they_are() -> None:
    assert safe_name("Köln 2") == "Köln 2"
    assert safe_name("x" * 200) == "x" * 200
    assert safe_name("x" * 201) == "x" * 182 + "%~" + safe_name("x" * 201)[-16:]
