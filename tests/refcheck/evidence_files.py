"""What verify, bias and controls say of a scene of which all holds, as they write it: every figure follows from the others."""

from __future__ import annotations

import numpy as np
from report_pages import certificate, controls, document

from refcheck import metrics
from scenes.scene import Scene

EACH = 500  # rollouts of each further check


def origin(scene: Scene, config: dict, digest: str) -> dict:
    told = {"options": {"image": None}, "overrides": [], "scenes": {scene.id: config}}
    return {"created": "2026-11-30T00:00:00+00:00", "config": told, "digests": {scene.id: digest}}


def certified(scene: Scene, digest: str, **changes) -> dict:
    """Return a certificate of 30,000 rollouts that are spread exactly as the reference; its knock-out moves everything."""
    labels, q = list(scene.outcomes), scene.q()
    shares = dict(zip(labels, q.tolist(), strict=True))
    alike = {"said": "as q", "n": EACH, "tvd": 0.0, "lower": 0.0, "upper": 0.08, "shares": shares, "alike": 0.9}
    away = {
        **alike,
        "said": "elsewhere",
        "tvd": 0.5,
        "lower": 0.4,
        "upper": 0.6,
        "shares": dict(zip(labels, [1.0, 0.0], strict=True)),
    }
    counts = {"outcomes": labels, "counts": (30_000 * q).astype(int).tolist(), "nulls": {"stuck": 90}, "sampling": "iid"}
    return certificate(
        **{"scene": scene.id, "digest": digest, "stream": scene.stream, "basis": scene.basis, "tally": counts, "n": 30_090},
        **{"q": {label: str(share) for label, share in (scene.reference.q or {}).items()}, "tvd": 0.0, "epsilon": 0.02},
        null_rate={"value": 90 / 30_090, "limit": 0.02},
        evidence={"second_integrator": alike, "step_halving": alike, "knock_out": away},
        **changes,
    )


def results(scene: Scene, config: dict, digest: str) -> dict[str, dict]:
    """Return the three results by verb, for a scene of two outcomes."""
    told, k = origin(scene, config, digest), 20
    q = {label: str(share) for label, share in (scene.reference.q or {}).items()}
    counts, judged = [8, 12], [8, 11]
    bias = {"scene": scene.id, "picture": "its own", "verdict": "faithful", "lower": 0.0, "upper": 0.01, "epsilon": 0.02}
    read = controls(
        **{"scene": scene.id, "digest": digest, "k": k, "q": q, "outcomes": list(scene.outcomes), "set": {"kind": "iid"}},
        truth={"counts": counts},
        judged={"counts": judged, "nulls": {"unreadable": 1}},
        confusion=[[8, 0, 0], [0, 11, 1]],
        confusion_columns=[*scene.outcomes, "null"],
        accuracy=1.0,
        tvd_truth=float(metrics.tvd(np.array(counts), scene.q())),
        tvd_judged=float(metrics.tvd(np.array(judged), scene.q())),
    )
    return {
        "verify": document("verify", certificates=[certified(scene, digest)]) | told,
        "bias": document("bias", bias={**bias, "to_blame": []}, image_sha256=None) | told,
        "controls": read | told,
    }
