"""A provider of a vision model on loopback: it answers by the colour of the last picture, and fails as it is told to."""

from __future__ import annotations

import base64
import io
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from PIL import Image

KEY = "sk-test-0123456789abcdef"
COLOURS = {"red": (200, 40, 40), "blue": (40, 40, 200), "green": (40, 180, 40)}
"""What a clip's last frames are painted in, by outcome; anything else is unreadable."""


def seen(content):
    """Return the label whose colour the last picture has, or None."""
    url = [part["image_url"]["url"] for part in content if part["type"] == "image_url"][-1]
    picture = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB")
    mean = np.asarray(picture, float)[picture.height // 2 :].mean(axis=(0, 1))  # the lower half: the upper one is a pattern
    near = {label: float(np.abs(mean - colour).max()) for label, colour in COLOURS.items()}
    best = min(near, key=near.get)
    return best if near[best] < 40 else None


class Provider:
    """Serves until closed. `faults` are met one a request, in order, each a name of a method `fault_...` or None."""

    def __init__(self):
        self.faults, self.requests, self.headers, self.replies = [], [], [], 0
        self.always = None  # a fault for every request of a kind ("readout", "trust") or all (True)
        self.lock = threading.Lock()
        self.times = []
        self.words = {}  # a scene's labels by colour, where they are not the colours
        self.slow = 0.0  # s, before every answer
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                provider.serve(self, body)

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # a client that was killed, or that gave a slow answer up

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def serve(self, handler, body):
        prompt = next(p["text"] for p in body["messages"][1]["content"] if p["type"] == "text")
        kind = "trust" if "scene_grounding" in prompt else "readout"
        with self.lock:
            self.requests.append(body)
            self.headers.append(handler.headers)
            self.times.append(time.monotonic())
            fault = self.faults.pop(0) if self.faults else None
            if self.always and (self.always[0] is True or self.always[0] == kind):
                fault = self.always[1]
        scene = re.search(r"^Scene: (.*)$", prompt, re.M).group(1)
        time.sleep(self.slow)
        reply = self.answer(kind, scene, self.label(body))
        if fault is None:
            self.send(handler, 200, self.envelope(json.dumps(reply)))
            with self.lock:
                self.replies += 1
        else:
            getattr(self, f"fault_{fault}")(handler, reply)

    def label(self, body):
        colour = seen(body["messages"][1]["content"])
        return self.words.get(colour, colour)

    @staticmethod
    def answer(kind, scene, label):
        if kind == "trust":
            axes = ("scene_grounding", "action_execution", "object_continuity", "physical_process")
            return {"scene_id": scene, "status": "TRUSTED", **dict.fromkeys(axes, "PASS")}
        return {
            "scene_id": scene,
            "outcome_readable": label is not None,
            "outcome_in_schema": "IN_SCHEMA" if label else "NOT_READABLE",
            "outcome_label": label,
            "observed_result": "a colour",
            "failure_axes": [] if label else ["hidden"],
        }

    @staticmethod
    def envelope(text, finish="stop"):
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
        return json.dumps({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()

    @staticmethod
    def send(handler, status, data, kind="application/json", headers=()):
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    # --- failures ---

    def error(self, handler, status, headers=()):
        told = {"error": {"message": f"no, and your key was {handler.headers['Authorization']}", "type": "x"}}
        self.send(handler, status, json.dumps(told).encode(), headers=headers)

    def fault_429(self, handler, reply):
        self.error(handler, 429)

    def fault_429_after(self, handler, reply):
        self.error(handler, 429, [("Retry-After", "1.2")])

    def fault_500(self, handler, reply):
        self.error(handler, 500)

    def fault_402(self, handler, reply):
        self.error(handler, 402)

    def fault_400(self, handler, reply):
        self.error(handler, 400)

    def fault_timeout(self, handler, reply):
        time.sleep(1.5)

    def fault_cut(self, handler, reply):
        data = self.envelope(json.dumps(reply))
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[: len(data) // 2])
        handler.close_connection = True

    def fault_drip(self, handler, reply):
        data = self.envelope(json.dumps(reply))
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        for byte in data:  # each well within a timeout, all of them never
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
            time.sleep(0.05)

    def fault_html(self, handler, reply):
        self.send(handler, 200, b"<html><body>Welcome to the hotel's network</body></html>", "text/html")

    def fault_truncated_envelope(self, handler, reply):
        data = self.envelope(json.dumps(reply))
        self.send(handler, 200, data[: len(data) // 2])

    def fault_huge(self, handler, reply):
        self.send(handler, 200, self.envelope(json.dumps(reply) + " " * (3 << 20)))

    def fault_truncated(self, handler, reply):
        text = json.dumps(reply)
        self.send(handler, 200, self.envelope(text[: len(text) // 2], "length"))

    def fault_length(self, handler, reply):
        self.send(handler, 200, self.envelope(json.dumps(reply), "length"))

    def fault_scene(self, handler, reply):
        self.send(handler, 200, self.envelope(json.dumps({**reply, "scene_id": "A-99"})))

    def fault_label(self, handler, reply):
        wrong = {**reply, "outcome_label": "mauve", "outcome_in_schema": "IN_SCHEMA", "outcome_readable": True}
        self.send(handler, 200, self.envelope(json.dumps(wrong)))

    def fault_nothing(self, handler, reply):
        self.send(handler, 200, self.envelope(None))

    def fault_prose(self, handler, reply):
        text = f"Sure! Having looked closely:\n```json\n{json.dumps(reply, indent=1)}\n```\nAnything else?"
        self.send(handler, 200, self.envelope(text))
