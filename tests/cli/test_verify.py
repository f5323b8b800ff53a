"""``ndflow verify``: what is missing, changed or foreign in a finished study."""

import shutil
from pathlib import Path

from commands import Run
from studies import SiteStudy, edit, sha256


def test_what_is_not_as_it_was_is_named_and_a_second_run_mends_it(
    run: Run, process: Run, study: SiteStudy, out: Path
) -> None:
    assert process("verify", out, "-q", "-j", 2) == (0, "", "")
    image, model, note = out / "images" / "s1.nii.gz", out / "models" / "s2.json", out / "x.txt"
    image.write_bytes(image.read_bytes() + b"\n")
    model.unlink()
    note.write_text("?")
    done = run("verify", out)
    assert (done.code, len(done.errors)) == (1, 1)
    found = {tuple(line.split(": ")[:2]) for line in done.out.splitlines()}
    assert found == {("changed", str(image)), ("missing", str(model)), ("foreign", str(note))}
    note.unlink()
    words = ("-q", "--proportions", "tissue", "--mode", "two-level", "--force")
    assert run("cohort", study.folder / "all.tsv", out, *words).code == 0
    assert run("verify", out).code == 0
    for path in (image, model):
        assert sha256(path) == sha256(study.folder / path.relative_to(out.parent))


def test_a_reference_that_was_given_is_checked(run: Run, study: SiteStudy, tmp_path: Path) -> None:
    given = tmp_path / "given.json"
    shutil.copy(study.folder / "out" / "reference.json", given)
    words = ("-q", "--reference", given)
    assert run("cohort", study.folder / "all.tsv", tmp_path / "out", *words).code == 0
    assert run("verify", tmp_path / "out").code == 0
    edit(given, comment="improved")
    done = run("verify", tmp_path / "out")
    assert (done.code, done.out.count(str(given))) == (1, 1)
