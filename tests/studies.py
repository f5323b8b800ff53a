"""Files, tables and small studies on disc."""

import csv
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from commands import typed
from phantoms import head, save

from ndflow.files.model_files import model_bytes, read_model
from ndflow.study.tasks import Outcome

# ── files ────────────────────────────────────────────────────────────────────────────────────────


def content(path: Path) -> bytes:
    """Return what a file holds, decompressed if that is possible."""
    stored = path.read_bytes()
    try:
        return gzip.decompress(stored)
    except (OSError, EOFError, zlib.error):
        return stored


def sha256(path: Path) -> str:
    return hashlib.sha256(content(path)).hexdigest()


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def edit(path: Path, **changes: Any) -> None:
    """Change a file of ours, and its checksum with it; what becomes ``...`` is left out."""
    _, payload, _ = read_model(path)
    kept = {name: part for name, part in (payload | changes).items() if part is not ...}
    path.write_bytes(model_bytes(read_json(path)["kind"], kept))


def record_of(image: Path) -> dict[str, Any]:
    """Return the JSON record that was written beside an image."""
    name = image.name.partition(".")[0]
    record: dict[str, Any] = read_json(image.with_name(f"{name}.json"))
    return record


def contents(folder: Path) -> dict[str, bytes]:
    """Return what every file below a folder except locks holds, by its relative path."""
    return {
        path.relative_to(folder).as_posix(): content(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("lock")
    }


def snapshot(folder: Path) -> dict[str, Any]:
    """Return all there is below a folder: hashes of files, targets of links, and folders."""
    return {
        path.relative_to(folder).as_posix(): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None,
            path.readlink() if path.is_symlink() else None,
        )
        for path in sorted(folder.rglob("*"))
    }


def results_of(out: Path) -> dict[str, bytes]:
    """Return the content of every file of a study, apart from the command that was run."""
    found = contents(out)
    provenance = json.loads(found["provenance.json"])
    del provenance["command"]
    return found | {"provenance.json": json.dumps(provenance).encode()}


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def read_tsv(path: Path) -> list[dict[str, str]]:
    """Return one dictionary per row of a table."""
    return list(csv.DictReader(path.read_text("utf-8").splitlines(), delimiter="\t"))


def write_tsv(
    path: Path, rows: Sequence[Mapping[str, object]], columns: Iterable[str] = ()
) -> Path:
    """Write some columns of a table, by default those of its first row."""
    with path.open("w", newline="", encoding="utf-8") as file:
        chosen = list(columns) or list(rows[0])
        writer = csv.DictWriter(file, chosen, delimiter="\t", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


# ── studies ──────────────────────────────────────────────────────────────────────────────────────

SMALL = (14, 16, 12)
SITES = {  # mean of CSF, mean of GM, and gain: contrasts that no affine map makes equal
    "Aachen": (300.0, 700.0, 1.0),
    "Bonn": (250.0, 820.0, 2.5),
    "Celle": (400.0, 600.0, 0.6),
}


def positive(z: Any) -> Any:
    """Return intensities on the scale of results, given those on the scale of a reference."""
    return 500 + 125 * z


class Silent:
    """Progress that is not shown; a scan that fails is an error."""

    def begin(self, stage: str, total: int) -> None: ...

    def step(self, stage: str, outcome: Outcome) -> None:
        assert outcome.failure is None, outcome.failure


class SiteStudy:
    """Small scans of several sites in one folder, tables of them, and studies run on these.

    The scans are ``s0.nii.gz``, ``s1.nii.gz``, …, the same number from each site, and `rows` is
    what is known of them. `drift` is by how much the gain grows from one scan to the next.
    """

    def __init__(
        self,
        folder: Path,
        sites: Mapping[str, tuple[float, float, float]] = SITES,
        *,
        per_site: int,
        drift: float = 0.0,
    ) -> None:
        self.folder = folder
        self.rows: list[dict[str, str]] = []
        for number in range(per_site * len(sites)):
            site = list(sites)[number // per_site]
            csf, grey, gain = sites[site]
            tissues = ((csf, 60.0), (grey + 20 * (number % per_site), 50.0), (1000.0, 40.0))
            gain *= 1 + drift * number
            scan = head(number, shape=SMALL, tissues=tissues, gain=gain)
            save(folder / f"s{number}.nii.gz", scan)
            row = {"image": f"s{number}.nii.gz", "site": site, "subject": f"p{number}"}
            self.rows.append(row)

    def table(
        self,
        name: str,
        rows: Sequence[Mapping[str, object]] | None = None,
        columns: Iterable[str] = (),
    ) -> Path:
        """Write a table beside the scans, by default of all that is known of all of them."""
        columns = list(columns) or list(self.rows[0])
        return write_tsv(self.folder / f"{name}.tsv", self.rows if rows is None else rows, columns)

    def run(self, name: str, *words: object, table: Path | None = None) -> Path:
        """Run ``ndflow cohort`` on a table, and return the folder with its results."""
        out = self.folder / name
        typed("cohort", table or self.table("all"), out, "-q", *words)
        return out
