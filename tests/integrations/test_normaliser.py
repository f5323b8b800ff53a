"""Volumes in memory: the same voxels as everywhere else, and maps that are found once."""

import copy
import pickle  # noqa: TID251 - as spawned workers of a data loader do
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from nibabel.nifti1 import Nifti1Image
from numpy.typing import NDArray
from phantoms import SHAPE, head, radii

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.mask import read_mask
from ndflow.image.read import read_grid
from ndflow.integrations import normaliser as module
from ndflow.integrations.normaliser import VolumeNormaliser, apply_recorded, inside_of, record_map
from ndflow.transport import Affine

LARGE = (40, 36, 32)  # enough voxels for a linear interpolant
NOISE = np.random.default_rng(1).random(LARGE)
SCAN = head(3, shape=LARGE)
BRAIN = radii(LARGE) < 0.9
REFERENCE = "builtin:T1w"
FLOATS = np.where(SCAN, SCAN + NOISE, 0).astype(np.float32)
ODD = np.where(NOISE < 0.01, np.nan, FLOATS)
ODD[0, 0, 0], ODD[1, 2, 3] = np.inf, -np.inf
KINDS: dict[str, NDArray[Any]] = {
    "int16": SCAN,
    "int16, turned": SCAN[::-1],
    "int16, in Fortran order": np.asfortranarray(SCAN),
    "int16, four axes": SCAN[..., np.newaxis],
    "int32, too wide for a look-up table": np.where(SCAN, SCAN * 1000 + 7, 0).astype(np.int32),
    "float32, whole": SCAN.astype(np.float32),
    "float32": FLOATS,
    "float64, in Fortran order, not all finite": np.array(ODD, np.float64, order="F"),
    "float16": (SCAN + NOISE).astype(np.float16),
    "big-endian float32": FLOATS.astype(">f4"),
}


# The phantoms are unlike the built-in reference, and said to be.
pytestmark = pytest.mark.filterwarnings("ignore:.*given once per process:UserWarning")


class Counted(VolumeNormaliser):
    """A normaliser that counts how often it had to look for a map."""

    found = 0

    def _found(self, *args: Any) -> ndflow.IntensityMap:
        self.found += 1
        return super()._found(*args)


def same(one: NDArray[Any], two: Any) -> bool:
    other = np.asarray(two)
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)


# ── the same result ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("masked", "units"),
    [(True, {}), (False, {"scale": "standard"}), (False, {"range": (0.0, 1.0)})],
    ids=["mask", "standard", "range"],
)
def test_the_result_is_that_of_normalise_to_the_last_bit(
    kind: str, masked: bool, units: dict[str, Any]
) -> None:
    voxels = KINDS[kind].copy(order="K")
    mask = BRAIN.reshape(voxels.shape) if masked else None
    record = record_map(VolumeNormaliser(REFERENCE, **units).map_of(voxels, mask), voxels, mask)
    expected = ndflow.normalise(voxels, to=REFERENCE, mask=mask, **units)
    assert record["map"] == expected.imap.to_dict()
    assert same(apply_recorded(record, voxels), expected.image)
    assert same(voxels, KINDS[kind])  # not changed


# ── what is remembered ───────────────────────────────────────────────────────────────────────────


def test_a_map_is_found_once_for_the_same_content() -> None:
    normaliser = Counted(REFERENCE)
    elsewhere = np.where(BRAIN, SCAN, 3).astype(np.int16)  # voxels that do not count
    for voxels in (SCAN, SCAN.copy(), elsewhere):
        assert normaliser.map_of(voxels, BRAIN.copy()) == normaliser.map_of(SCAN, BRAIN)
    assert normaliser.found == 1
    changed, mask, unsigned = SCAN.copy(), BRAIN.copy(), SCAN.astype(np.uint16)  # the same bytes
    changed[20, 18, 16] += 1
    mask[20, 18, 16] = False
    for other, inside in ((changed, BRAIN), (SCAN, mask), (SCAN, None), (unsigned, BRAIN)):
        normaliser.map_of(other, inside)
    assert normaliser.found == 5


def test_the_least_recently_used_map_is_forgotten_first() -> None:
    normaliser = Counted(REFERENCE, remember=2)
    one, two, three = (head(seed) for seed in range(3))
    for voxels in (one, two, one, three, one):  # two is forgotten
        normaliser.map_of(voxels)
    assert normaliser.found == 3
    normaliser.map_of(two)
    assert normaliser.found == 4


def test_threads_may_share_a_normaliser() -> None:
    normaliser = VolumeNormaliser(REFERENCE, remember=1)
    scans = [head(seed % 3) for seed in range(9)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(normaliser.map_of, scans))
    assert found == [VolumeNormaliser(REFERENCE).map_of(scan) for scan in scans[:3]] * 3


@pytest.mark.parametrize("sent", [lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy])
def test_it_can_be_sent_to_another_process(sent: Any) -> None:
    normaliser = VolumeNormaliser(REFERENCE)
    expected = normaliser.map_of(SCAN, BRAIN)
    assert sent(normaliser).map_of(SCAN, BRAIN) == expected
    assert len(pickle.dumps(normaliser)) < 100_000


# ── what is doubtful ──────────────────────────────────────────────────────────────────────────────

END = " (given once per process)"


@pytest.fixture
def caught(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[warnings.WarningMessage]]:
    """Yield the warnings of a process that has given none before."""
    monkeypatch.setattr(module, "_GIVEN", set())
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("sizes", "mask", "kind"),
    [((5.0, 6.0, 7.0), None, "whole head"), ((1.0, 4.0, 20.0), SCAN > 0, "mask too wide")],
    ids=["whole head", "wide mask"],
)
def test_the_warnings_are_those_of_normalise(
    sizes: Any, mask: Any, kind: str, order: Any, caught: Any
) -> None:
    voxels, affine = np.array(ODD, np.float32, order=order), np.diag([*sizes, 1.0])
    VolumeNormaliser(REFERENCE).map_of(voxels, mask, affine=affine, name="a.nii")
    told = [str(one.message).removeprefix("a.nii: ").removesuffix(END) for one in caught]
    stored = None if mask is None else Nifti1Image(mask.view(np.uint8), affine)
    expected = ndflow.normalise(Nifti1Image(voxels, affine), to=REFERENCE, mask=stored)
    lines = [line.removeprefix("the image: ") for line in expected.warnings]
    assert told == [*lines, *map(str, expected.doubts)]
    assert any("NaN" in one for one in told)
    assert any(one.startswith(kind) for one in told)


def test_a_process_gives_the_first_warning_of_each_kind(caught: Any) -> None:
    transform = VolumeNormaliser(REFERENCE)
    transform.map_of(head(1), name="a.nii")
    kinds = len(caught)
    assert kinds
    assert all(str(one.message).startswith("a.nii: ") for one in caught)
    for name in ("b.nii", "c.nii"):
        bad = np.where(head(1) > 0, head(1), np.nan)
        transform.map_of(bad if name == "b.nii" else bad[1:], name=name)
    (more,) = caught[kinds:]
    assert "b.nii: " in str(more.message)
    assert "NaN" in str(more.message)


def test_soft_masks_are_read_as_everywhere(caught: Any) -> None:
    soft = np.clip(5.5 - 5 * radii(LARGE), 0, 1)
    assert np.array_equal(inside_of(soft), read_mask(soft, read_grid(soft)).inside)
    assert np.count_nonzero(inside_of(soft)) < 0.9 * np.count_nonzero(soft)
    assert "values above 0.5 count as inside" in str(caught[0].message)


# ── what is recorded ──────────────────────────────────────────────────────────────────────────────

SMALL = np.array([[0.0, 0.0, 5.0], [0.0, 2.0, 0.0]], np.float32)
SMALL_MASK = np.array([[False, True, True], [False, True, True]])  # two zeros are inside
SMALL_MAPPED = np.array([[0.0, 3.0, 13.0], [0.0, 7.0, 3.0]], np.float32)
RECORD = record_map(Affine(2.0, 3.0), SMALL, SMALL_MASK)


def test_zeros_inside_the_mask_are_mapped_unless_the_shape_is_another() -> None:
    np.testing.assert_array_equal(apply_recorded(RECORD, SMALL), SMALL_MAPPED)
    larger = np.pad(SMALL, 1)
    expected = np.pad(SMALL_MAPPED, 1) * (larger > 0)
    np.testing.assert_array_equal(apply_recorded(RECORD, larger), expected)


@pytest.mark.parametrize("change", [np.asarray, np.flip, np.transpose, lambda one: np.pad(one, 2)])
def test_background_stays_0_wherever_voxels_have_moved_before_a_map_is_undone(change: Any) -> None:
    undone = apply_recorded(RECORD, change(SMALL_MAPPED), inverse=True)
    np.testing.assert_array_equal(undone, change(SMALL))


# ── what is refused ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("voxels", "mask", "error", "message"),
    [
        (np.zeros(SHAPE), None, FileError, "no voxels are finite and not 0"),
        (head(), np.ones((5, 6, 7), bool), FileError, r"the shape \(5, 6, 7\)"),
        (head() * 1j, None, InvalidValueError, "complex128"),
        (np.ones((2, 3, 4, 5)), None, InvalidValueError, "the image"),
    ],
)
def test_volumes_that_cannot_be_normalised_are_refused_as_elsewhere(
    voxels: Any, mask: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        VolumeNormaliser(REFERENCE).map_of(voxels, mask)
    with pytest.raises(error, match=message):
        ndflow.normalise(voxels, to=REFERENCE, mask=mask)
