"""For tests of `score`: asking it without a command line, and hand-made PAWBench policies and rows."""

import json
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from rich.console import Console

import refcheck
from refcheck import score
from refcheck.command import Request

CSV = Path(refcheck.__file__).parent / "data" / "calibench_outcomes.csv"


def answer(out=None, **values):
    steps = []

    @contextmanager
    def progress(label, total):
        yield steps.append
        assert sum(steps) == total

    defaults = {option.name: option.default for option in score.OPTIONS}
    assert set(values) <= set(defaults)
    result = score.run(Request(defaults | {"draws": 1000} | values, (), (), out, progress))
    json.dumps(result.result, allow_nan=False)
    return result


def drawn(tables, width=100):
    console = Console(width=width, record=True, file=StringIO())
    for table in tables:
        console.print(table)
    return console.export_text()


GROUPS = ["toss"] * 9 + ["rotation"] * 4 + ["routing"] * 8 + ["draw"] * 4


def policy_of(scenes=25, repeats=50, models=("m",)):
    shared = {"expected_repeat_indices": list(range(repeats))}
    calibration = [
        {"scene_id": f"A-{i:02}", "track": "calibration", "group": GROUPS[i], "reference_distribution": {"a": 0.5, "b": 0.5}}
        for i in range(scenes)
    ]
    coverage = [
        {"scene_id": f"B-{i:02}", "track": "coverage", "group": "agent", "support_labels": ["a", "b", "c", "d"]}
        for i in range(scenes)
    ]
    return {
        "model_or_lanes": list(models),
        "tracks": {
            "calibration": {"scenes": [scene | shared for scene in calibration]},
            "coverage": {"scenes": [scene | shared for scene in coverage]},
        },
    }


def rows_of(policy, outcome):
    """A row for each slot; `outcome(scene, repeat)` is a label, None for a null, or an Exception for a failure."""
    rows = []
    for model in policy["model_or_lanes"]:
        for track, held in policy["tracks"].items():
            for scene in held["scenes"]:
                for repeat in scene["expected_repeat_indices"]:
                    label = outcome(scene["scene_id"], repeat)
                    failed = isinstance(label, Exception)
                    name = f"{model}::{scene['scene_id']}::r{repeat:03}"
                    rows.append(
                        {
                            "sample_id": name + "::repeat",
                            "source_sample_id": name,
                            "scene_id": scene["scene_id"],
                            "track": track,
                        }
                        | {"model_or_lane": model, "repeat_index": repeat, "outcome_label": None if failed else label}
                        | {"observation": "outcome" if isinstance(label, str) else "null_observation"}
                        | ({"observation": "infrastructure_failure", "failure_code": str(label)} if failed else {})
                    )
    return rows


def write(tmp_path, policy, rows):
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"data": tmp_path / "rows.jsonl", "policy": tmp_path / "policy.json"}
