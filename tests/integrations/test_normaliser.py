"""Volumes in memory: the same voxels as everywhere else, and maps that are found once."""

import copy
import pickle  # noqa: TID251 - as spawned workers of a data loader do
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from phantoms import SHAPE, head, radii, save, voxels_of

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.integrations import normaliser as module
from ndflow.integrations.normaliser import VolumeNormaliser, apply_recorded, record_map
from ndflow.transport import Affine

LARGE = (40, 36, 32)  # enough voxels for a linear interpolant
NOISE = np.random.default_rng(1).random(LARGE)
SCAN = head(3, shape=LARGE)
BRAIN = radii(LARGE) < 0.9
REFERENCE = "builtin:T1w"
KINDS: dict[str, NDArray[Any]] = {
    "int16": SCAN,
    "uint8": (SCAN // 6).astype(np.uint8),
    "int32, too wide for a look-up table": np.where(SCAN, SCAN * 1000 + 7, 0).astype(np.int32),
    "float32, whole": SCAN.astype(np.float32),
    "float32": np.where(SCAN, SCAN + NOISE, 0).astype(np.float32),
    "float64 without background": SCAN + NOISE,
    "float16": (SCAN + NOISE).astype(np.float16),
    "big-endian float32": np.where(SCAN, SCAN + NOISE, 0).astype(">f4"),
}


class Counted(VolumeNormaliser):
    """A normaliser that counts how often it had to look for a map."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.found = 0

    def _found(self, *args: Any) -> ndflow.IntensityMap:
        self.found += 1
        return super()._found(*args)


def same(one: NDArray[Any], two: Any) -> bool:
    other = np.asarray(two)
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)


# ── the same result ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["C", "F", "neither"])
@pytest.mark.parametrize("masked", [True, False])
def test_the_result_is_that_of_normalise_to_the_last_bit(
    kind: str, order: Any, masked: bool
) -> None:
    voxels = KINDS[kind]
    given = voxels[::-1] if order == "neither" else np.array(voxels, order=order)
    mask = BRAIN if masked else None
    result = VolumeNormaliser(REFERENCE)(given, mask)
    expected = ndflow.normalise(given, to=REFERENCE, mask=mask)
    assert result.imap == expected.imap
    assert same(result.voxels, expected.image)


@pytest.mark.parametrize(
    ("masked", "units"),
    [(True, {"scale": "standard"}), (False, {"range": (0.0, 1.0)}), (False, {})],
)
def test_options_do_what_they_do_in_normalise(masked: bool, units: dict[str, Any]) -> None:
    seed = 5
    generator = np.random.default_rng(seed)
    voxels = head(seed).astype(np.float32) + generator.choice([0, 0.25, 0.5], SHAPE)
    voxels = np.where(generator.random(SHAPE) < 0.1, 0, voxels).astype(np.float32)
    voxels[generator.random(SHAPE) < 0.01] = np.nan
    voxels[0, 0, 0], voxels[1, 2, 3] = np.inf, -np.inf
    mask = radii() < 0.8 if masked else None
    result = VolumeNormaliser(REFERENCE, **units)(voxels, mask)
    expected = ndflow.normalise(voxels, to=REFERENCE, mask=mask, **units)
    assert same(result.voxels, expected.image)


@pytest.mark.parametrize(
    "mask", [BRAIN.astype(np.uint8), BRAIN * 0.9, BRAIN * 7, BRAIN.astype(np.float32)], ids=str
)
def test_masks_are_read_by_the_same_rules(mask: NDArray[Any]) -> None:
    assert same(
        VolumeNormaliser(REFERENCE)(SCAN, mask).voxels,
        VolumeNormaliser(REFERENCE)(SCAN, BRAIN).voxels,
    )


def test_a_file_gives_the_same_voxels_on_the_command_line(tmp_path: Path) -> None:
    image = save(tmp_path / "scan.nii.gz", SCAN)
    mask = save(tmp_path / "mask.nii.gz", BRAIN.astype(np.uint8))
    out = tmp_path / "out.nii.gz"
    ndflow.normalise(image, to=REFERENCE, mask=mask, output=out)
    assert same(VolumeNormaliser(REFERENCE)(SCAN, BRAIN).voxels, voxels_of(out, None))


def test_references_of_every_kind_are_accepted(tmp_path: Path) -> None:
    reference = ndflow.builtin_reference("T1w")
    ndflow.save(tmp_path / "r.json", reference)
    expected = VolumeNormaliser(REFERENCE)(SCAN).voxels
    for one in (reference, tmp_path / "r.json", str(tmp_path / "r.json")):
        assert same(VolumeNormaliser(one)(SCAN).voxels, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_result_can_be_undone(dtype: Any) -> None:
    voxels = KINDS["float32"].astype(dtype)
    result = VolumeNormaliser(REFERENCE)(voxels, BRAIN)
    record = record_map(result.imap, voxels, BRAIN)
    again = apply_recorded(record, result.voxels, inverse=True)
    assert np.abs(again - voxels).max() < 1e-3 * voxels.std()
    assert not again[voxels == 0].any()


def test_what_goes_in_is_not_changed() -> None:
    voxels, mask = KINDS["float32"].copy(), BRAIN.copy()
    result = VolumeNormaliser(REFERENCE)(voxels, mask).voxels
    result[:] = 7
    assert same(voxels, KINDS["float32"])
    assert voxels.flags.writeable
    assert same(mask, BRAIN)


# ── what is remembered ───────────────────────────────────────────────────────────────────────────


def test_a_map_is_found_once_for_the_same_content() -> None:
    normaliser = Counted(REFERENCE)
    first = normaliser(SCAN, BRAIN)
    again = normaliser(SCAN.copy(), BRAIN.copy())
    assert normaliser.found == 1
    assert same(first.voxels, again.voxels)


def test_another_voxel_another_mask_or_another_type_is_another_scan() -> None:
    normaliser = Counted(REFERENCE)
    changed = SCAN.copy()
    changed[20, 18, 16] += 1
    mask = BRAIN.copy()
    mask[20, 18, 16] = False
    for voxels, inside in (
        (SCAN, BRAIN),
        (changed, BRAIN),
        (SCAN, mask),
        (SCAN, None),
        (SCAN.astype(np.int32), BRAIN),
    ):
        normaliser(voxels, inside)
    assert normaliser.found == 5


def test_the_same_bytes_of_another_type_are_another_scan() -> None:
    normaliser = Counted(REFERENCE)
    scan = SCAN.astype(np.uint16)  # without a negative number, so that both can be normalised
    for one in (scan, scan.view(np.int16)):
        normaliser.map_of(one)
    assert normaliser.found == 2


def test_voxels_that_do_not_count_make_no_difference_to_the_map() -> None:
    normaliser = Counted(REFERENCE)
    elsewhere = np.where(BRAIN, SCAN, 3).astype(np.int16)
    assert normaliser(SCAN, BRAIN).imap == normaliser(elsewhere, BRAIN).imap
    assert normaliser.found == 1


def test_the_least_recently_used_map_is_forgotten_first() -> None:
    normaliser = Counted(REFERENCE, remember=2)
    one, two, three = (head(seed) for seed in range(3))
    for voxels in (one, two, one, three):  # two is forgotten
        normaliser(voxels)
    assert normaliser.found == 3
    normaliser(one)
    assert normaliser.found == 3
    normaliser(two)
    assert normaliser.found == 4


def test_a_folder_is_shared_by_normalisers_of_the_same_settings_only(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "maps"
    first = Counted(REFERENCE, folder=folder)
    expected = first(SCAN)
    (file,) = folder.iterdir()
    assert file.stat().st_size < 50_000
    assert ndflow.load(file) == expected.imap
    second = Counted(REFERENCE, folder=folder)
    assert same(second(SCAN).voxels, expected.voxels)
    assert second.found == 0
    other = Counted(REFERENCE, folder=folder, scale="standard")
    other(SCAN)
    assert other.found == 1


def test_a_change_of_results_makes_saved_maps_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Counted(REFERENCE, folder=tmp_path)(SCAN)
    monkeypatch.setattr(module, "RESULTS", module.RESULTS + 1)
    later = Counted(REFERENCE, folder=tmp_path)
    later(SCAN)
    assert later.found == 1


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    expected = VolumeNormaliser(REFERENCE, folder=tmp_path)(SCAN)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[:100], whole.replace(b"Tabulated", b"Tabulatec")):
        file.write_bytes(damaged)
        again = Counted(REFERENCE, folder=tmp_path)
        assert same(again(SCAN).voxels, expected.voxels)
        assert again.found == 1
        assert file.read_bytes() == whole


@pytest.mark.parametrize("mask", [None, BRAIN, BRAIN.astype(np.float32)])
@pytest.mark.parametrize("scan", [SCAN, SCAN.astype(np.float32)])
def test_a_fourth_axis_of_length_1_makes_no_difference(scan: Any, mask: Any) -> None:
    deeper = None if mask is None else mask[..., np.newaxis]
    result = VolumeNormaliser(REFERENCE)(scan[..., np.newaxis], deeper).voxels
    assert same(result[..., 0], VolumeNormaliser(REFERENCE)(scan, mask).voxels)


def test_threads_may_share_a_normaliser() -> None:
    normaliser = Counted(REFERENCE, remember=1)
    scans = [head(seed % 3) for seed in range(9)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(normaliser, scans))
    for scan, result in zip(scans, found, strict=True):
        assert same(result.voxels, VolumeNormaliser(REFERENCE)(scan).voxels)


@pytest.mark.parametrize("sent", [lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy])
def test_it_can_be_sent_to_another_process(sent: Any, tmp_path: Path) -> None:
    normaliser = VolumeNormaliser(REFERENCE, folder=tmp_path)
    expected = normaliser(SCAN, BRAIN)
    copied = sent(normaliser)
    assert same(copied(SCAN, BRAIN).voxels, expected.voxels)
    assert len(list(tmp_path.iterdir())) == 1
    assert len(pickle.dumps(normaliser)) < 100_000


# ── what is recorded ──────────────────────────────────────────────────────────────────────────────

SMALL = np.array([[0.0, 0.0, 5.0], [0.0, 2.0, 0.0]], np.float32)
SMALL_MASK = np.array([[False, True, True], [False, True, True]])  # two zeros are inside
SMALL_MAPPED = np.array([[0.0, 3.0, 13.0], [0.0, 7.0, 3.0]], np.float32)
RECORD = record_map(Affine(2.0, 3.0), SMALL, SMALL_MASK)


def test_zeros_inside_the_mask_are_mapped_and_come_back() -> None:
    np.testing.assert_array_equal(apply_recorded(RECORD, SMALL), SMALL_MAPPED)
    np.testing.assert_array_equal(apply_recorded(RECORD, SMALL_MAPPED, inverse=True), SMALL)


@pytest.mark.parametrize("change", [np.flip, np.transpose, lambda one: np.pad(one, 2)])
def test_background_stays_0_where_voxels_have_moved_before_a_map_is_undone(change) -> None:
    undone = apply_recorded(RECORD, change(SMALL_MAPPED), inverse=True)
    np.testing.assert_array_equal(undone, change(SMALL))


def test_zeros_of_a_volume_of_another_shape_stay_0() -> None:
    larger = np.pad(SMALL, 1)
    np.testing.assert_array_equal(
        apply_recorded(RECORD, larger), np.pad(SMALL_MAPPED, 1) * (larger > 0)
    )


# ── what is refused ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("voxels", "mask", "error", "message"),
    [
        (np.zeros(SHAPE), None, FileError, "no voxels are finite and not 0"),
        (np.zeros(SHAPE, np.int16), None, FileError, "no voxels are finite and not 0"),
        (head(), np.zeros(SHAPE, bool), FileError, "the mask: an empty mask"),
        (head(), np.zeros(SHAPE), FileError, "the mask: an empty mask"),
        (head(), np.ones((5, 6, 7), bool), FileError, r"the shape \(5, 6, 7\)"),
        (np.ones(SHAPE), None, FileError, "all voxels used have the value 1"),
        (head() * 1j, None, InvalidValueError, "complex128"),
        (np.ones((2, 3, 4, 5)), None, InvalidValueError, "the image"),
    ],
)
def test_volumes_that_cannot_be_normalised_are_refused_as_elsewhere(
    voxels: Any, mask: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        VolumeNormaliser(REFERENCE)(voxels, mask)
    with pytest.raises(error, match=message):
        ndflow.normalise(voxels, to=REFERENCE, mask=mask)


def test_what_makes_no_sense_is_refused_before_any_volume_comes() -> None:
    with pytest.raises(FileError, match=r"nowhere\.json"):
        VolumeNormaliser("nowhere.json")
    with pytest.raises(InvalidValueError, match="scale"):
        VolumeNormaliser(REFERENCE, scale="target")
