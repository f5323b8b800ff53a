"""References from mixtures, fits, files and images, in any order with the same result."""

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from phantoms import head, save, tissue_shares

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import Subject, TissueMaps
from ndflow.options import Options
from ndflow.subject.records import ReferenceModel
from ndflow.subject.reference import average_models, lacking_tissues, read_source

SCANS = [head(seed, gain=1 + seed) for seed in range(3)]
FITS = [ndflow.fit(scan) for scan in SCANS]
MIXTURES = [fit.mixture for fit in FITS]
EXPECTED = ndflow.population.reference(MIXTURES)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [save(tmp_path / "one.nii.gz", SCANS[0]), save(tmp_path / "two.nii", SCANS[1])]
    ndflow.save(tmp_path / "three.json", MIXTURES[2])
    return [*paths, tmp_path / "three.json"]


def test_sources_of_every_form_give_the_same_reference(files: list[Path]) -> None:
    for sources in (MIXTURES, FITS, SCANS, files, [MIXTURES[0], FITS[1], SCANS[2]]):
        assert ndflow.reference(sources).mixture == EXPECTED.mixture
    assert ndflow.reference(files).provenance["names"] == ["one", "three", "two"]
    assert ndflow.reference(SCANS).provenance["names"] is None


def test_a_reference_is_written_too_and_files_are_not_replaced(files: list[Path]) -> None:
    output = files[0].with_name("reference.json")
    made = ndflow.reference(files, channel="T1w", output=output)
    assert ndflow.load(output) == made
    with pytest.raises(FileError, match="exists already"):
        ndflow.reference(files, output=output)
    with pytest.raises(FileError, match="one of the inputs"):
        ndflow.reference(files, output=files[2], force=True)
    assert ReferenceModel.read(output).reference.channel_names == ("T1w",)


@pytest.mark.parametrize("method", ["nyul", "zscore", "hellier"])
def test_landmarks_do_not_depend_on_the_order(method: Any) -> None:
    made = [ndflow.reference(list(order), method=method) for order in permutations(SCANS)]
    assert made[0].landmarks is not None
    assert made[0].landmarks.method == method
    assert all(one.landmarks == made[0].landmarks for one in made)
    assert all(one.mixture == made[0].mixture for one in made)


def test_weights_and_landmarks_belong_together() -> None:
    heavy = ndflow.reference(SCANS, method="nyul", weights=[0.0, 0.0, 1.0])
    alone = ndflow.reference(SCANS[2:], method="nyul")
    assert heavy.landmarks is not None
    assert alone.landmarks is not None
    np.testing.assert_allclose(heavy.landmarks.values, alone.landmarks.values, rtol=1e-12)
    with pytest.raises(InvalidValueError, match="weights must be 3, one per scan, not 2"):
        ndflow.reference(SCANS, weights=[1.0, 2.0])


def source(image: Any, **parts: Any) -> Any:
    scan = Subject(image, **parts)
    return read_source(scan, options=Options())


def test_a_reference_knows_tissues_if_those_of_all_scans_are_known() -> None:
    shares = tissue_shares()
    maps = TissueMaps(shares["csf"], shares["gm"], shares["wm"])
    known = [source(scan, tissues=maps) for scan in SCANS]
    models = [one.models[""] for one in known]
    made = average_models(models, Options())
    assert made.tissues is not None
    assert made.tissues == average_models(models[::-1], Options()).tissues
    some = [*known[:2], source(SCANS[2])]
    assert average_models([one.models[""] for one in some], Options()).tissues is None
    assert lacking_tissues(["a", "b", "c"], some) == "c"
    assert lacking_tissues(["a", "b", "c"], known) is None


def test_a_reference_is_no_source_of_another(tmp_path: Path) -> None:
    ndflow.save(tmp_path / "reference.json", EXPECTED)
    with pytest.raises(FileError, match="of the kind 'reference', where 'mixture'"):
        ndflow.reference([tmp_path / "reference.json"])
