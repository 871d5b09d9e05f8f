"""The command line. Imports the standard library alone; a verb's module only when it is called."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from refcheck import options
from refcheck.command import INFRASTRUCTURE, USER_MISTAKE, Answer, UserError, printable

VERBS = (
    "list",
    "simulate",
    "render",
    "verify",
    "bias",
    "tune",
    "generate",
    "controls",
    "freeze",
    "judge",
    "evaluate",
    "score",
    "report",
)
INTERRUPTED = 130  # 128 + SIGINT, as shells have it

ABOUT = """quincunx: the referee of probabilistic video benchmarks

  quincunx VERB key=value ...

{verbs}

  quincunx VERB --help    the keys of a verb
  quincunx --version      which one this is

Scenes: scene=calibench/dice, scenes='pawbench/*' (patterns match the whole id; * crosses /).
One scene's config may be changed: scene.device.thickness=2e-3, scene.engine.steps_per_second=4800.
Exit status: 0 completed, 1 a require= verdict not met, 2 your mistake, 3 the machine's."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; `arguments` default to the process's own."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        _own_standard_output()
        signal.signal(signal.SIGTERM, _stop)
    try:
        return _main(words)
    except UserError as error:
        return _refuse(error.problems, words)
    except KeyboardInterrupt:
        print("quincunx: stopped; no result was written", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `quincunx list | head`
        sys.stderr.close()
        return 0
    except OSError as error:
        _say(f"quincunx: {error}")
        return INFRASTRUCTURE
    except Exception as error:
        # By name, since importing their modules would cost what a wrong key should not.
        if type(error).__name__ == "SceneError":
            return _refuse(getattr(error, "problems", (str(error),)), words)
        if type(error).__name__ not in ("InfrastructureError", "BlowUpError"):
            _say(traceback.format_exc().rstrip())
            _say("quincunx: the lines above are a mistake in quincunx, not yours; please report them")
        _say(f"quincunx: {error}")
        return INFRASTRUCTURE


def _stop(number: int, frame: object) -> None:
    """Take a polite kill (a scheduler's time limit) as Ctrl-C: temporary files go, workers end."""
    raise KeyboardInterrupt


def _own_standard_output() -> None:
    """Keep descriptor 1 for ourselves: what engines written in C print of their own accord goes to standard error."""
    sys.stdout.flush()
    ours = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(ours, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)


def _say(text: str) -> None:
    """Print on standard error; a name in a file may hold what would drive a terminal."""
    print(printable(text), file=sys.stderr)


def _refuse(problems: Sequence[str], words: Sequence[str]) -> int:
    for problem in problems:
        _say(f"quincunx: {problem}")
    verb = words[0] if words and words[0] in VERBS else "VERB"
    print(f"Nothing was done. See `quincunx {verb} --help`." if verb != "VERB" else "See `quincunx --help`.", file=sys.stderr)
    return USER_MISTAKE


def _main(words: list[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        print(ABOUT.format(verbs="\n".join(f"  {verb:<10}{_summary(verb)}" for verb in VERBS)))
        return 0
    if words[0] in ("--version", "-V", "version"):
        print(f"quincunx {_version()}")
        return 0
    if words[0] not in VERBS:
        raise UserError(f"{words[0]!r} is not a verb{options.suggest(words[0], VERBS)}; there are {', '.join(VERBS)}")
    module = _module(words[0])
    if {"--help", "-h"} & set(words[1:]):
        print(options.describe(words[0], module))
        return 0
    from scenes.catalog import beside  # standard library and yaml alone

    with beside(options.scene_folder(module, words[1:])):
        return _run(words[0], module, words[1:])


def _run(verb: str, module: ModuleType, words: Sequence[str]) -> int:
    asked = options.parse(module, words)
    from refcheck import output  # rich; only once the words are right

    request = asked.request(output.progress)
    document: dict[str, Any] = output.header(verb, _version(), asked)
    output.claim(asked, document)
    answer: Answer = module.run(request)
    document = output.complete(document, answer.result)
    if asked.out:
        output.write(asked.out, document)
    output.show(answer.tables, document, as_json=asked.json, where=asked.out)
    return answer.status


def _module(verb: str) -> ModuleType:
    try:
        return importlib.import_module(f"refcheck.{verb}")
    except ModuleNotFoundError as error:
        raise OSError(f"{error}: this installation is incomplete; install quincunx again (`pip install .`)") from error


def _summary(verb: str) -> str:
    """Return the verb's SUMMARY without importing its module, which may bring in physics engines."""
    found = importlib.util.find_spec(f"refcheck.{verb}")
    if found is None or found.origin is None:
        return "(not in this version)"
    for node in ast.parse(Path(found.origin).read_text("utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            names = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(name, ast.Name) and name.id == "SUMMARY" for name in names) and node.value is not None:
                return str(ast.literal_eval(node.value))
    return ""


def _version() -> str:
    try:
        return version("quincunx")
    except PackageNotFoundError:
        return "unknown (not installed)"


if __name__ == "__main__":
    sys.exit(main())
