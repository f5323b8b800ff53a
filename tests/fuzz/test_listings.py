"""Tables and BIDS datasets with odd cells, names and links: refused, or all scans are seen."""

import csv
import json
import os
import re
from functools import cache
from pathlib import Path
from random import Random

from files_on_disc import anat, dataset
from fuzz.conftest import Fuzz, typed_in
from fuzz.json_damage import changed, text_of
from phantoms import head, nifti

from ndflow.files.tables import read_delimited

CELLS = ["A", "B", "Zürich 脳", " blank ", "it's", 'a "quoted" word', "a, b; c", "x" * 100]
CELLS += ["=cmd|' /C calc'!A0", "a\u2028b", "\u00a0", "-", "n/a", "N/A", "", "../..", "100%", "#"]
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
    mark, end = random.choice("\t\t,;"), random.choice(["\n", "\r\n"])
    path = folder / ("scans.tsv" if mark == "\t" else "scans.csv")
    with path.open("w", encoding=random.choice(["utf-8", "utf-8-sig"]), newline="") as file:
        table = csv.DictWriter(file, order, delimiter=mark, lineterminator=end)
        table.writeheader()
        table.writerows(rows)
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
            b"\n".join([lines[0] + b"\t" + lines[0], *lines[1:]]),
            content.replace(b"\n", b"\n\n"),
            content.replace(b"\n", b"\r"),
            content.decode().encode("utf-16"),
            content.replace(b"image", b"picture"),
            b"",
        ]
    )


def table_case(random: Random, folder: Path) -> bool:
    path, rows = written(random, folder)
    whole = random.random() < 0.4
    if not whole:
        path.write_bytes(damaged(random, path.read_bytes()))
    content, out = path.read_bytes(), folder / "out"
    images = [f"s{n}.nii" for n in range(len(rows)) if f"s{n}.nii".encode() in content]
    ran = typed_in(folder, "cohort", path, out, "--dry-run")
    assert not out.exists()
    if ran.code:
        return False
    for image in images:
        assert re.search(rf"\b{Path(image).stem}\b", ran.out), f"{image} was overlooked: {ran.out}"
    if random.random() < 0.1:
        ran = typed_in(folder, "cohort", path, out, "-q", "--method", "affine", "--no-report")
        assert ran.code == 0, ran.err
        columns, found = read_delimited(out / "scans.tsv")
        table = [dict(zip(columns, cells, strict=True)) for _, cells in found]
        listed = {Path(row["image"]).name: row for row in table}
        assert sorted(listed) == images
        for row in rows if whole else ():
            for column in ("subject", "site"):
                given, kept = row.get(column, "").strip(), listed[row["image"]][column]
                assert kept == given or given.lower() in ("", "n/a"), (kept, given)
    return True


def test_tables(fuzz: Fuzz) -> None:
    fuzz(table_case, 25)


SIDECAR = {"SkullStripped": True, "RepetitionTime": 2.3, "Manufacturer": "X", "Nested": {"a": [1]}}
DESCRIPTION = {"Name": "Test", "BIDSVersion": "1.10.0", "Authors": ["A", "B"]}
ODD_NAMES = [
    "T1w", "sub-01__T1w", "sub-01_T1w (copy)", "run-1_sub-01_T1w", "sub-02_T1w", "sub-01_mask",
    "sub-01_run-1_run-2_T1w", "sub-01_acq-äö_T1w", ".sub-01_run-9_T1w", "sub-01_rec-x\ny_T1w",
    "../sub-01_T1w", "../Anat/sub-01_run-7_T1w", "sub-01_desc-ndflow_T1w",
]  # fmt: skip


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
    (root / "participants.tsv").write_text("\n".join(["participant_id\tsite\tage", *rows, ""]))
    return scans


def accident(random: Random, root: Path, scans: list[Path]) -> None:
    """Do something to a dataset that a careless hand, a copy or a network can do."""
    victim, table = random.choice(scans), root / "participants.tsv"
    what = random.randrange(8)
    if what == 0:
        odd = root / "sub-01" / "anat" / f"{random.choice(ODD_NAMES)}.nii"
        odd.parent.mkdir(parents=True, exist_ok=True)
        odd.resolve().parent.mkdir(parents=True, exist_ok=True)
        odd.write_bytes(scan(0))
    elif what == 1:
        name = random.choice(["loop", "sub-99", "ses-9", "anat2", "sub-99_T1w.nii"])
        place = random.choice([root, victim.parent, victim.parent.parent]) / name
        if not os.path.lexists(place):
            place.symlink_to(random.choice(["..", ".", str(root), "loop", "nowhere", "/"]))
    elif what == 2 and table.is_file():
        table.write_bytes(damaged(random, table.read_bytes() or b"x"))
    elif what in (3, 4):
        path = random.choice([victim.with_suffix(".json"), root / "dataset_description.json"])
        document = dict(DESCRIPTION if path.parent == root else SIDECAR)
        changed(random, document)
        path.write_bytes(text_of(random, document))
    elif what == 5 and victim.is_file():
        victim.unlink()
        random.choice([lambda path: None, Path.touch, Path.mkdir, os.mkfifo])(victim)
    elif what == 6 and victim.is_file():
        victim.unlink()
        victim.symlink_to("../../.git/annex/objects/Xk/0a.nii")
    elif what == 7 and victim.is_file():
        mask = victim.with_name(victim.name.replace("_T1w", "_desc-brain_mask"))
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
    for path in filter(Path.is_file, scans):
        assert path.stem in ran.out, f"{path} was overlooked: {ran.out}"
    return True


def test_bids_trees(fuzz: Fuzz) -> None:
    fuzz(tree, 40)
