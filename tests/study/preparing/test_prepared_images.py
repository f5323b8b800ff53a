"""Tissue probabilities in steps of 1/255, and images on the grid of a scan."""

from dataclasses import replace
from pathlib import Path

import nibabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from phantoms import AFFINE, head, save, tissue_shares
from studies import SMALL

from ndflow.errors import FileError
from ndflow.image.read import read_volume
from ndflow.image.subject import Subject, TissueMaps
from ndflow.image.write import write_volume
from ndflow.options import Preparing
from ndflow.study.listing import PlainNames, named
from ndflow.study.plan import Study
from ndflow.study.prepare_step import STEP, PrepareStep, in_steps
from ndflow.study.prepare_tables import scans_to_prepare
from ndflow.study.steps import do

SHARES = arrays(np.float32, (3, 5), elements=st.floats(0, 1, width=32))


@given(SHARES, st.floats(0, 1))
def test_probabilities_keep_their_sum_and_change_by_less_than_a_step(
    shares: np.ndarray, total: float
) -> None:
    sums = np.maximum(shares.sum(axis=0, dtype=np.float64), 1e-30)
    tissues = (shares / sums * total).astype(np.float32)
    levels = in_steps(tissues).astype(int)
    assert np.abs(levels / 255 - tissues).max() < 1 / 255 + 1e-6
    assert (np.abs(levels.sum(axis=0) - 255 * tissues.sum(axis=0, dtype=np.float64)) < 0.501).all()
    assert levels.sum(axis=0).max() <= 255


@pytest.fixture
def scan(tmp_path: Path) -> Subject:
    return Subject(str(save(tmp_path / "a_T1w.nii.gz", head(shape=SMALL))), origin="row 2")


def prepared(scan: Subject, folder: Path) -> Subject:
    """Prepare a scan with all that it was given, and return what became of it."""
    preparing = Preparing(mask="nonzero", no_bias_field=True)
    (raw,) = scans_to_prepare(named([scan], PlainNames()), folder)
    step = PrepareStep.of(Study(folder / "out", [raw], preparing=preparing))
    assert not do(step, raw).kept
    assert do(step, raw).kept
    return step.prepared(raw)


def test_the_sum_of_what_is_written_never_exceeds_1(scan: Subject, tmp_path: Path) -> None:
    like = read_volume(scan.image)
    generator = np.random.default_rng(0)
    tissues = generator.dirichlet([1, 1, 1], like.shape).astype(np.float32)
    total = np.zeros(like.shape)
    for number, part in enumerate(in_steps(np.moveaxis(tissues, -1, 0))):
        path = tmp_path / f"{number}.nii.gz"
        write_volume(path, like, [part.reshape(-1, order="F")], dtype="uint8", scaling=(STEP, 0.0))
        total += nibabel.load(path).get_fdata()
    assert 0.999 < total.min() <= total.max() <= 1


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
def test_maps_that_were_given_are_copied_as_they_are_stored(
    scan: Subject, tmp_path: Path, dtype: str
) -> None:
    slope = {"uint8": 1 / 255, "int16": 1e-4}.get(dtype)
    given = {}
    for tissue, share in tissue_shares(SMALL).items():
        stored = np.maximum(share, 0) / (slope or 1)
        image = nibabel.Nifti1Image(stored.astype(dtype), AFFINE)
        image.header.set_slope_inter(slope or 1, 0)
        nibabel.save(image, tmp_path / f"{tissue}.nii")
        given[tissue] = str(tmp_path / f"{tissue}.nii")
    done = prepared(replace(scan, tissues=TissueMaps(**given)), tmp_path)
    for tissue, path in done.tissues._asdict().items():
        before, after = nibabel.load(given[tissue]), nibabel.load(path)
        assert after.get_data_dtype() == before.get_data_dtype()
        assert np.array_equal(after.get_fdata(), before.get_fdata())


def test_mgh_files_have_no_scaling(tmp_path: Path) -> None:
    like = read_volume(save(tmp_path / "scan.nii.gz", head()))
    with pytest.raises(FileError, match="no scaling"):
        write_volume(tmp_path / "a.mgz", like, [like.flat], dtype="uint8", scaling=(0.5, 0))
