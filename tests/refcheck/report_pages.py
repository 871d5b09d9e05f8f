"""Results to make pages from, and a page taken apart."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from PIL import Image

from refcheck import app, metrics
from refcheck.sequential import beta_binomial_interval, mixture_radius, mixture_rho

OUTCOMES = Path(app.__file__).parent / "data" / "calibench_outcomes.csv"
SECTIONS = ("certificates", "controls", "models", "reading", "provenance")
VOID = {"meta", "img", "br", "link", "input", "hr"}
SVG_EMPTY = {"path", "use", "circle", "line", "rect", "g"}


class Page(HTMLParser):
    """Parses a page and checks that its tags close in order; keeps ids, attributes that load something, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        given = dict(attributes)
        self.ids += [given["id"]] if "id" in given else []
        self.loads += [given[name] for name in ("src", "href", "xlink:href", "srcset", "data", "action") if name in given]
        assert not [name for name in given if name.startswith("on")], f"a script in an attribute of {tag}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes what was not open"

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def certificate(lies={}, **changes):  # noqa: B006
    """A certificate whose bounds follow from its tally, but for the `lies` about them."""
    one = {
        "scene": "toy/coin",
        "digest": "0123456789abcdef",
        "stream": "toy/coin",
        "seed": 7,
        "verdict": "holds",
        "reason": "distance",
        "tally": {
            "outcomes": ["heads", "tails"],
            "counts": [5060, 4940],
            "nulls": {"stuck": 0, "on_edge": 17},
            "sampling": "iid",
            "group": None,
        },
        "q": {"heads": "1/2", "tails": "1/2"},
        "tvd": 0.006,
        "lower": 0.0,
        "epsilon": 0.03,
        "alpha": 0.01,
        "null_rate": {"value": 17 / 10017, "limit": 0.02},
        "p_value": {"value": 0.2339, "statistic": 1.44, "kind": "chi_square", "method": "exact", "draws": 0, "reached": 0},
        "basis": "mechanism",
        "engine": {"name": "bullet", "version": "1", "steps_per_second": 1200, "time_limit": 8.0},
        "n": 10017,
        "looks": 40,
        "first_rest_disagree": 0.031,
        "settle_time": {"median": 1.4, "p95": 1.9},
        "seconds": 12.5,
        "rollouts_per_second": 801.4,
        "evidence": {"second_integrator": "not yet", "step_halving": "agrees", "knock_out": "not yet"},
    }
    one |= changes
    valid, nulls = sum(one["tally"]["counts"]), sum(one["tally"]["nulls"].values())
    radius = mixture_radius(valid, mixture_rho(one["epsilon"], one["alpha"]), one["alpha"])
    lower, upper = beta_binomial_interval(nulls, valid + nulls, one["alpha"])
    ends = {
        "upper": min(1.0, float(one["tvd"] or 0.0) + radius),
        "null_rate": {**one["null_rate"], "lower": lower, "upper": upper},
    }
    return {**one, **ends, **{key: value for key, value in lies.items() if key in ends}}


FREE = {"value": 17 / 10017, "lower": 0.0, "upper": 0.001, "limit": 0.02}

FAILING = certificate(
    scene="toy/bent",
    verdict="fails",
    tally={"outcomes": ["heads", "tails"], "counts": [700, 300], "nulls": {}, "sampling": "iid", "group": None},
    n=1000,
    tvd=0.2,
    lower=0.1234,
    null_rate={"value": 0.0, "limit": 0.02},
)


def document(verb, **body):
    return {
        "schema": f"quincunx.{verb}/v1",
        "verb": verb,
        "version": "0.1.0",
        "created": "2026-01-02T03:04:05+00:00",
        "versions": {"python": "3.11.7", "numpy": "2.0.0"},
        "config": {"options": {"seed": 7, "workers": 2, "epsilon": None}, "overrides": [], "scenes": {}},
        "seed": 7,
        **body,
    }


def controls(**changes):
    confusion = [[7, 1, 1], [0, 11, 0]]
    counts, judged = np.array([9, 11]), np.array([7, 12])
    body = {
        "scene": "toy/coin",
        "digest": "0123456789abcdef",
        "k": 20,
        "judge": {"name": "trained"},
        "outcomes": ["heads", "tails"],
        "q": {"heads": "1/2", "tails": "1/2"},
        "truth": {"counts": counts.tolist()},
        "judged": {"counts": judged.tolist(), "nulls": {"unreadable": 1}},
        "confusion": confusion,
        "confusion_columns": ["heads", "tails", "null"],
        "accuracy": 18 / 19,
        "abstained": 0.05,
        "tvd_truth": float(metrics.tvd(counts, [0.5, 0.5])),
        "tvd_judged": float(metrics.tvd(judged, [0.5, 0.5])),
        "floor": 0.0881,
        "floor_judged": 0.0903,
        "band": [0.0, 0.2],
        "band_judged": [0.0263, 0.2368],
        "score_truth": -0.0418,
        "score_judged": 0.0935,
        "infrastructure_failures": 0,
        "clips": [],
        "sheet": "sheet.png",
        "source": "source.png",
    }
    return document("controls", **{**body, **changes})


def put(root, name, content):
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def pictures(folder):
    for name, size in (("sheet.png", (320, 200)), ("source.png", (64, 48))):
        Image.new("RGB", size, (10, 120, 200)).save(folder / name)


def everything(root, scored):
    put(root, "verify", document("verify", certificates=[certificate(), FAILING]))
    pictures(put(root, "controls", controls()))
    put(root, "score", scored)
    return root


def made(root, *words) -> tuple[str, Page]:
    assert app.main(["report", f"data={root}", *words]) == 0
    text = (root / "report.html").read_text("utf-8")
    return text, Page(text)


def rendered(digest="0123456789abcdef", single=False):
    clips = [{"file": f"clips/{i}.mp4", "index": i, "outcome": label, "null": ""} for i, label in enumerate(("heads", "tails"))]
    one = {"scene": "toy/coin", "digest": digest, "clips": clips, "source": "source.png", "sheet": "sheet.png"}
    return (
        document("render", **one) if single else document("render", scenes=[{**one, "folder": "toy-coin"}], sheet="sheet.png")
    )


ABOUT = {
    "title": "A toy coin",
    "reference": {"q": {"heads": "1/2"}, "derivation": "Two like faces.", "source": "Toy (2026)", "standing": "derived"},
    "note": "A note on the toy.",
    "prompt": "The coin is tossed.",
    "epsilon": 0.03,
    "device": {
        "_target_": "toys.Coin",
        "thickness": 0.00215,
        "table": [0.5, 0.46],
        "random": {"spin": {"dist": "norm", "loc": 130.0, "scale": 20.0}},
    },
    "engine": {"steps_per_second": 1200},
}


def with_scenes(result, **scenes):
    result["config"] = {**result["config"], "scenes": {name.replace("__", "/"): one for name, one in scenes.items()}}
    return result
