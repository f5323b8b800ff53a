"""Tables with odd cells and damaged ones: refused, or all scans are seen."""

import csv
import re
from functools import cache
from pathlib import Path
from random import Random

from fuzz.conftest import Fuzz, typed_in
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
