import numpy as np
import pytest
from nibabel.freesurfer.mghformat import MGHHeader
from nibabel.nifti1 import Nifti1Header

from ndflow.errors import InvalidValueError
from ndflow.image.mask import (
    found_for,
    holds_found_brain,
    mark_found_brain,
    to_be_found,
)


def test_two_words_stand_for_masks_that_are_to_be_found() -> None:
    assert to_be_found("auto")
    assert to_be_found("brain")
    for mask in (None, "nonzero", "./brain", "brain.nii.gz", np.ones((2, 2, 2)), ["brain"]):
        assert not to_be_found(mask)


def test_scans_without_a_mask_get_one_of_three() -> None:
    assert [found_for(word) for word in ("nonzero", "auto", "brain")] == [None, "auto", "brain"]
    with pytest.raises(InvalidValueError, match="one of brain, auto, nonzero, not 'head'"):
        found_for("head")  # type: ignore[arg-type]


def test_the_header_of_a_mask_says_that_deepbet_found_it() -> None:
    header = Nifti1Header()  # type: ignore[no-untyped-call]
    assert not holds_found_brain(header)
    mark_found_brain(header, "1.0.2")
    assert holds_found_brain(header)
    assert header["descrip"].item() == b"ndflow brain mask, deepbet 1.0.2"
    assert not holds_found_brain(MGHHeader())  # type: ignore[no-untyped-call]
