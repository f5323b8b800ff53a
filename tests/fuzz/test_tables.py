"""Tables of scans with odd cells, in every dialect, and damaged: refused, or all rows are seen."""

import csv
import io
import re
from functools import cache
from pathlib import Path
from random import Random

from fuzz.conftest import Fuzz
from fuzz.judge import typed_in
from phantoms import head, nifti

CELLS = [
    "A",
    "B",
    "Zürich 脳",
    " blank ",
    "it's",
    'a "quoted" word',
    "a, b; c",
    "x" * 300,
    "=cmd|' /C calc'!A0",
    "a\u2028b",
    "\u00a0",
    "-",
    "n/a",
    "N/A",
    "",
    "../..",
    "100%",
    "#",
]
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


def mutated(random: Random, folder: Path) -> bool:
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
    fuzz(mutated, 60)
