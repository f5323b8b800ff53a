from recipe_place import Place, command_of_page


def test_one_job_per_scan_gives_what_the_commands_give_and_resumes(place: Place) -> None:
    command = command_of_page("snakemake", "out=results")
    scan = place.path / "scans/sub-02_T1w.nii.gz"
    whole = scan.read_bytes()
    scan.write_bytes(whole[:2000])
    assert place.run(f"{command} --keep-going").returncode != 0
    assert (place.path / "results/models/sub-01_T1w.json").exists()
    assert "cut short" in (place.path / "results/logs/fit/sub-02_T1w.txt").read_text()
    scan.write_bytes(whole)
    said = place.well(command)
    assert "5 of 5 steps" in said  # one fit, the reference, two images, and rule all
    assert place.images("results/images/{}_T1w.nii.gz") == place.by_hand("before")
    place.change("sub-02")
    said = place.well(command)
    assert "5 of 5 steps" in said
    assert place.images("results/images/{}_T1w.nii.gz") == place.by_hand("after")


def test_a_study_is_one_job_that_is_checked(place: Place) -> None:
    place.well(command_of_page("snakemake", "study"))
    assert (place.path / "results/study/images/sub-01_T1w.nii.gz").exists()
    assert "as they were" in (place.path / "results/verified.txt").read_text()
