import numpy as np
import pytest

from ndflow.errors import InvalidValueError
from ndflow.image.found_masks import found_for, to_be_found


def test_two_words_stand_for_masks_that_are_to_be_found() -> None:
    assert to_be_found("auto")
    assert to_be_found("brain")
    for mask in (None, "none", "./brain", "brain.nii.gz", np.ones((2, 2, 2)), ["brain"]):
        assert not to_be_found(mask)


def test_scans_without_a_mask_get_one_of_three() -> None:
    assert [found_for(word) for word in ("none", "auto", "brain")] == [None, "auto", "brain"]
    with pytest.raises(InvalidValueError, match="one of none, auto, brain, not 'head'"):
        found_for("head")  # type: ignore[arg-type]
