"""Results stay what they are, unless the generation of results is raised with them.

Studies are made again after an upgrade only if `ndflow._version.RESULTS` has risen. After a change
of results, raise it, and renew what is stored: ``python tests/test_results.py``.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
from studies import SITES, SiteStudy

from ndflow._version import RESULTS
from ndflow.subject.records import MapRecord

STORED = Path(__file__).parent / "data" / "results.json"
BUILT_IN = ("ndflow", "affine", "zscore", "nyul", "quantile", "hellier")
LEVELS = [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98]
SITE_WISE = {
    "site": ("--mode", "site"),
    "two-level adaptive": ("--mode", "two-level", "--proportions", "adaptive"),
    "averaged densities": ("--set", "average=density"),
    "L2": ("--set", "objective=l2"),
    "paper": ("--preset", "paper"),
}
RUNS = {**{method: ("--method", method) for method in BUILT_IN}, **SITE_WISE}


def results(folder: Path) -> dict[str, list[float]]:
    """Return what becomes of some intensities of the first scan, in every kind of study."""
    study = SiteStudy(folder, dict(list(SITES.items())[:2]), per_site=2)
    found = {}
    for name, words in RUNS.items():
        out = study.run(name, "--no-report", *words)
        record = MapRecord.read(out / "maps" / "s0.json")
        assert record.mixture is not None
        found[name] = record.map(record.mixture.quantile(LEVELS)).tolist()
    return found


def test_results_change_only_with_their_generation(tmp_path: Path) -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    found = results(tmp_path)
    assert stored["generation"] == RESULTS, "renew: python tests/test_results.py"
    assert found.keys() == stored["results"].keys()
    advice = "raise RESULTS in _version.py, then python tests/test_results.py"
    for name, values in found.items():
        expected = stored["results"][name]
        np.testing.assert_allclose(values, expected, 1e-5, 1e-5, err_msg=f"{name}: {advice}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        made = {"generation": RESULTS, "results": results(Path(folder))}
    STORED.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
