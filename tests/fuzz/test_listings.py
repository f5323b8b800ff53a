"""Tables and BIDS datasets with odd cells, names and links: refused, or all scans are seen."""

import csv
import io
import json
import os
import re
from functools import cache
from pathlib import Path
from random import Random

from files_on_disc import anat, dataset
from fuzz.conftest import Fuzz
from fuzz.json_damage import changed, text_of
from fuzz.judge import typed_in
from phantoms import head, nifti

CELLS = ["A", "B", "Zürich 脳", " blank ", "it's", 'a "quoted" word', "a, b; c", "x" * 300]
CELLS += ["=cmd|' /C calc'!A0", "a\u2028b", "\u00a0", "-", "n/a", "N/A", "", "../..", "100%"]
CELLS += ["#"]
COLUMNS = ["site", "subject", "age", "Scanner", "notes", "name", "output"]


@cache
def scan(number: int) -> bytes:
    return nifti(head(number, shape=(9, 9, 9), gain=1 + number))


def written(random: Random, folder: Path) -> tuple[Path, list[dict[str, str]]]:
    """Write some scans and a table of them; return the table and what it says."""
    columns = random.sample(COLUMNS, random.randint(0, 4))
    rows = []
    for number in range(random.randint(2, 4)):
        cells = {name: random.choice(CELLS[:3] + CELLS) for name in columns}
        rows.append({"image": f"s{number}.nii", **cells})
        (folder / f"s{number}.nii").write_bytes(scan(number))
    order = random.sample(["image", *columns], len(columns) + 1)
    mark = random.choice("\t\t,;")
    text = io.StringIO(newline="")
    quoting = random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    end = random.choice(["\n", "\r\n"])
    table = csv.DictWriter(text, order, delimiter=mark, quoting=quoting, lineterminator=end)
    table.writeheader()
    table.writerows(rows)
    path = folder / ("scans.tsv" if mark == "\t" else "scans.csv")
    start = random.choice(["", "", "\ufeff"])
    path.write_text(start + text.getvalue(), "utf-8", newline="")
    return path, rows


def damaged(random: Random, content: bytes) -> bytes:
    """Return a table after an accident."""
    place = random.randrange(len(content))
    lines = content.split(b"\n")
    odd = random.choice([b'"', b"\0", b"\xff", b"\r", b"\n", b"\t", b",", "\u2028".encode(), b"\\"])
    number = random.randrange(len(lines))
    return random.choice(
        [
            content[:place] + odd + content[place:],
            content[:place] + content[place + 1 :],
            content[:place],
            b"\n".join([*lines[:number], lines[number] + b"\tmore", *lines[number + 1 :]]),
            b"\n".join([*lines[:number], lines[number].rpartition(b"\t")[0], *lines[number + 1 :]]),
            b"\n".join([*lines[:-1], lines[number], lines[-1]]),
            b"\n".join([lines[0] + b"\t", *lines[1:]]),
            b"\n".join([lines[0] + b"\t" + lines[0], *lines[1:]]),
            b"\n".join(lines[:1]),
            b"\n" + content,
            content.replace(b"\n", b"\n\n"),
            content.replace(b"\n", b"\r"),
            content.decode().encode("utf-16"),
            content.replace(b"image", b"Image "),
            content.replace(b"image", b"picture"),
            b"",
        ]
    )


def table_case(random: Random, folder: Path) -> bool:
    path, rows = written(random, folder)
    whole = random.random() < 0.4
    if not whole:
        path.write_bytes(damaged(random, path.read_bytes()))
    content = path.read_bytes()
    images = [f"s{n}.nii" for n in range(len(rows)) if f"s{n}.nii".encode() in content]
    before = sorted(folder.iterdir())
    ran = typed_in(folder, "cohort", path, folder / "out", "--dry-run")
    assert sorted(folder.iterdir()) == before
    if ran.code:
        return False
    for image in images:
        assert re.search(rf"\b{Path(image).stem}\b", ran.out), f"{image} was overlooked: {ran.out}"
    if random.random() < 0.1:
        run(path, folder, rows if whole else None, images)
    return True


def run(path: Path, folder: Path, rows: list[dict[str, str]] | None, images: list[str]) -> None:
    """Run a study, and compare the list of its scans with the table."""
    out = folder / "out"
    ran = typed_in(folder, "cohort", path, out, "-q", "--method", "affine", "--no-report")
    assert ran.code == 0, ran.err
    with (out / "scans.tsv").open(encoding="utf-8", newline="") as file:
        listed = {Path(row["image"]).name: row for row in csv.DictReader(file, delimiter="\t")}
    assert sorted(listed) == images
    assert {Path(row["output"]).name for row in listed.values()} == {
        image.name for image in (out / "images").iterdir()
    }
    for row in rows or ():
        for column in ("subject", "site"):
            given = row.get(column, "").strip()
            kept = listed[row["image"]][column]
            assert kept.strip("'") == given or given.lower() in ("", "n/a"), (kept, given)


def test_tables(fuzz: Fuzz) -> None:
    fuzz(table_case, 40)


SIDECAR = {"SkullStripped": True, "RepetitionTime": 2.3, "Manufacturer": "X", "Nested": {"a": [1]}}
DESCRIPTION = {"Name": "Test", "BIDSVersion": "1.10.0", "Authors": ["A", "B"]}
ODD_NAMES = ["sub-01/anat/T1w.nii", "sub-01/anat/sub-01__T1w.nii"]
ODD_NAMES += ["sub-01/anat/sub-01_T1w (copy).nii", "sub-01/anat/run-1_sub-01_T1w.nii"]
ODD_NAMES += ["sub-01/anat/sub-02_T1w.nii", "sub-01/anat/sub-01_ses-z_T1w.nii"]
ODD_NAMES += ["sub-01/anat/sub-01_run-1_run-2_T1w.nii", "sub-01/anat/sub-01_acq-äö_T1w.nii"]
ODD_NAMES += ["sub-01/anat/sub-01_T1w.nii.gz.part", "sub-01/anat/.sub-01_run-9_T1w.nii"]
ODD_NAMES += ["sub-01/anat/sub-01_rec-x\ny_T1w.nii", "sub-01/anat/._sub-01_T1w.nii"]
ODD_NAMES += ["sub-01/sub-01_T1w.nii", "sub-01/Anat/sub-01_run-7_T1w.nii", "sub-/anat/sub-_T1w.nii"]
ODD_NAMES += ["sub-01_T1w.nii", "sub-01/anat/sub-01_desc-ndflow_T1w.nii"]
ODD_NAMES += ["sub-01/anat/sub-01_desc-preproc_T1w.nii", "derivatives/x/sub-01/anat/sub-01_T1w.nii"]
ODD_NAMES += ["sub-01/anat/sub-01_mask.nii"]


def built(random: Random, root: Path) -> list[Path]:
    """Make a dataset, and return its scans."""
    names = []
    for subject in random.sample(["01", "02", "10", "A"], random.randint(1, 3)):
        for session in random.choice([[""], ["_ses-a"], ["_ses-a", "_ses-2"]]):
            runs = random.choice([[""], [""], ["_run-1", "_run-2"]])
            names += [f"sub-{subject}{session}{run}_T1w.nii" for run in runs]
    dataset(root)
    scans = [root / place for place in anat(*names)]
    for number, path in enumerate(scans):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(scan(number))
        path.with_suffix(".json").write_text(json.dumps(SIDECAR))
    subjects = sorted({name.split("_")[0] for name in names})
    rows = [f"{subject}\t{'AB'[i % 2]}\t{20 + i}" for i, subject in enumerate(subjects)]
    table = "\n".join(["participant_id\tsite\tage", *rows, ""])
    (root / "participants.tsv").write_text(table)
    return scans


def accident(random: Random, root: Path, scans: list[Path]) -> None:
    """Do something to a dataset that a careless hand, a copy or a network can do."""
    victim = random.choice(scans)
    what = random.randrange(10)
    if what == 0:
        odd = root / random.choice(ODD_NAMES)
        odd.parent.mkdir(parents=True, exist_ok=True)
        odd.write_bytes(scan(0))
    elif what == 1:
        target = random.choice(["..", ".", str(root), "loop", "nowhere", "/"])
        name = random.choice(["loop", "sub-99", "ses-9", "anat2", "sub-99_T1w.nii"])
        place = random.choice([root, victim.parent, victim.parent.parent]) / name
        if not os.path.lexists(place):
            place.symlink_to(target)
    elif what == 2:
        table = root / "participants.tsv"
        if table.exists():
            table.write_bytes(damaged(random, table.read_bytes() or b"x"))
    elif what in (3, 4):
        path = random.choice([victim.with_suffix(".json"), root / "dataset_description.json"])
        document = dict(DESCRIPTION if path.parent == root else SIDECAR)
        changed(random, document)
        path.unlink(missing_ok=True)
        path.write_bytes(text_of(random, document))
    elif what == 5:
        path = random.choice(sorted(root.rglob("*")))
        if path.is_file():
            path.unlink()
            random.choice([lambda p: None, Path.touch, Path.mkdir, os.mkfifo])(path)
    elif what == 6 and victim.is_file():
        victim.write_bytes(victim.read_bytes()[: random.randrange(2000)])
    elif what == 7:
        victim.unlink(missing_ok=True)
        if not victim.exists():
            victim.symlink_to("../../.git/annex/objects/Xk/0a.nii")
    elif what == 8 and victim.exists():
        victim.rename(victim.with_name(victim.name.replace("sub-", "sub-x", 1)))
    elif what == 9:
        mask = victim.with_name(victim.name.replace("_T1w", "_desc-brain_mask"))
        if not os.path.lexists(mask):
            mask.write_bytes(random.choice([b"", scan(0), scan(1)[:500]]))


def tree(random: Random, folder: Path) -> bool:
    root, out = folder / "raw", folder / "out"
    scans = built(random, root)
    accidents = random.choice([0, 1, 1, 1, 2, 3])
    for _ in range(accidents):
        accident(random, root, scans)
    level = random.choice(["participant", "group"])
    ran = typed_in(folder, "bids", root, out, level, "--dry-run")
    assert not out.exists()
    if ran.code:
        assert accidents, ran.err
        return False
    good = [path for path in scans if path.is_file()]
    for path in good:
        assert path.stem in ran.out, f"{path} was overlooked: {ran.out}"
    if random.random() < 0.1:
        run_bids(root, out, good)
    return True


def run_bids(root: Path, out: Path, scans: list[Path]) -> None:
    """Run a study on a dataset, and check the derivative."""
    ran = typed_in(root, "bids", root, out, "group", "-q", "--method", "affine", "--no-report")
    if ran.code == 2:
        return
    for path in scans:
        ours = out / path.relative_to(root).with_name(path.name.replace("_T1w", "_desc-ndflow_T1w"))
        image, sidecar = ours.with_suffix(".nii.gz"), ours.with_suffix(".json")
        assert image.exists() == sidecar.exists()
        name = path.name.removesuffix("_T1w.nii")  # the error may be about its mask
        assert image.exists() or name in ran.err, f"{path} is missing: {ran.err}"
        if sidecar.exists():
            json.loads(sidecar.read_text("utf-8"), parse_constant=_refuse)


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def test_bids_trees(fuzz: Fuzz) -> None:
    fuzz(tree, 40)
