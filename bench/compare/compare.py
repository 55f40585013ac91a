#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same training by `castor train`, plain PyTorch, FSDP2 and DeepSpeed in turns: step times, peaks and losses side by side.

    python3 bench/compare/compare.py --cases b8-8g,b8-16g,b32-28g,3.9b --clip none,1.0 --json compare.json      # one GPU, README.md
    python3 bench/compare/compare.py --cases tiny --steps 5                                                     # any machine

Each run is a separate process, one at a time; a round runs every engine once. Prints a table per case and clip as soon
as its last run has ended. A failed engine becomes a row with the reason. Exits with 1 if no engine succeeded or the
models differ.
"""
import argparse
import json
import os
import pathlib
import shlex
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import child  # noqa: E402
from cases import CASES, ENGINES  # noqa: E402
from table import add_ratios, combine, notes, table  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent


def options_of(arguments, clip):
    """The options that every engine gets in addition to those of the job."""
    options = {"--steps": arguments.steps, "--seed": arguments.seed, "--threads": arguments.threads}
    return options | {"--clip": "0" if clip == "none" else clip}


def words_of(options):
    return [str(word) for option in options.items() for word in option]


def castor_command(arguments, case, clip, extra):
    """`castor train` for `case`, or the engine over `import castor`. Options in `extra` replace the defaults; the resident
    run has no budgets."""
    extra = shlex.split(extra)
    extra = [*case.castor, *extra]
    resident = ("--plugin", "none") in zip(extra, extra[1:]) or "--plugin=none" in extra
    given = {word.split("=")[0] for word in extra}
    defaults = options_of(arguments, clip) | {"--plugin": "gemini"}
    if not resident:
        defaults |= {"--device-budget": case.device_budget, "--host-budget": case.host_budget}
    words = words_of({name: value for name, value in defaults.items() if name not in given})
    program = [arguments.python, str(pathlib.Path(arguments.engines) / "engine_castor.py")] if case.in_python() else [arguments.castor, "train"]
    return [*program, *case.job(), *words, *extra, "--json"]


def peer_command(arguments, case, clip, peer):
    script = pathlib.Path(arguments.engines) / f"engine_{peer}.py"
    return [arguments.python, str(script), *case.job(), *words_of(options_of(arguments, clip)), "--loss", arguments.loss]


def commands(arguments, case, clip):
    """The names of the rows and their commands, engine by engine."""
    rows = {f"castor {extra}".strip(): castor_command(arguments, case, clip, extra) for extra in arguments.castor_args or [""]}
    for peer in case.peers if arguments.peers is None else arguments.peers:
        rows[peer] = peer_command(arguments, case, clip, peer)
    return rows


class Runs:
    """The output of each command, by round. Cases with the same command share its runs."""

    def __init__(self, timeout_s):
        self.timeout_s = timeout_s
        self.found = {}

    def of(self, command):
        return self.found.get(tuple(command), [])

    def take(self, command, n_wanted, name):
        """Runs `command` unless it has run `n_wanted` times or failed before."""
        runs = self.found.setdefault(tuple(command), [])
        if len(runs) >= n_wanted or any("error" in found for found in runs):
            return
        print(f"{name} …", file=sys.stderr, flush=True)
        runs.append(child.run(command, self.timeout_s))


def compare(arguments, runs, done):
    """Runs all rounds; prints each table once its runs are complete and appends its contents to `done`."""
    groups = [(case, clip) for case in arguments.cases for clip in arguments.clip]
    for number in range(1, arguments.rounds + 1):
        for case, clip in groups:
            in_turn = list(commands(arguments, case, clip).items())
            for engine, command in in_turn if number % 2 else reversed(in_turn):  # so the order varies
                runs.take(command, number, f"round {number}/{arguments.rounds}  {case.name}, clip {clip}: {engine}")
                write(arguments.json, done, runs)
            if number == arguments.rounds:
                done.append(show(arguments, case, clip, runs))


def show_rest(arguments, runs, done):
    """Prints the incomplete tables when the user stops."""
    for case, clip in [(case, clip) for case in arguments.cases for clip in arguments.clip][len(done) :]:
        if any(runs.of(command) for command in commands(arguments, case, clip).values()):
            done.append(show(arguments, case, clip, runs))


def show(arguments, case, clip, runs):
    rows = add_ratios([combine(engine, runs.of(command)) for engine, command in commands(arguments, case, clip).items()])
    clipped = "without clipping" if clip == "none" else f"clipped at {clip}"
    title = (
        f"\n{case.name}: {case.model}, batch {case.batch} × {case.seq}, {clipped}; "
        f"Castor under {case.device_budget} of device and {case.host_budget} of host memory"
    )
    print(table(title, rows), flush=True)
    return {"case": case.name, "clip": clip, "rows": rows, "notes": notes(rows)}


def listed(known):
    def read(text):
        names = text.split(",") if text else []
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"there is no '{name}'; there are {', '.join(known)}")
        return names

    return read


def clips(text):
    for word in text.split(","):
        if word != "none" and not float(word) > 0:
            raise argparse.ArgumentTypeError(f"'{word}' is neither `none` nor a norm above 0")
    return text.split(",")


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--castor", default="build/castor", help="the program")
    parser.add_argument("--cases", type=listed(CASES), default="b8-8g", help=", ".join(CASES))
    parser.add_argument("--clip", type=clips, default="none", help="norms, or none, separated by commas: a table each")
    parser.add_argument("--castor-args", action="append", help="more options of castor train, in one word; repeated: a row each")
    parser.add_argument("--peers", type=listed(ENGINES), help=f"from {','.join(ENGINES)} (empty: castor alone; default: the case's)")
    parser.add_argument("--steps", type=int, default=8, help="optimizer steps of a run")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each engine, in turns")
    parser.add_argument("--seed", type=int, default=0, help="decides first weights and tokens")
    parser.add_argument("--threads", type=int, default=0, help="of each engine; 0 = its own choice")
    parser.add_argument("--loss", choices=("sliced", "torch"), default="sliced", help="the peers': as Castor's models, or torch's own")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that one run may take")
    parser.add_argument("--python", default=sys.executable, help="runs the peers")
    parser.add_argument("--engines", default=str(FOLDER), help="folder of the peers' programs")
    parser.add_argument("--json", help="file for all figures and the runs behind them")
    arguments = parser.parse_args()
    if arguments.steps < 1 or arguments.rounds < 1:
        parser.error("--steps and --rounds are at least 1")
    if not all(CASES[name].in_python() for name in arguments.cases) and shutil.which(arguments.castor) is None:
        parser.error(f"there is no program {arguments.castor}; `make` builds it, --castor says where another one is")
    arguments.cases = [CASES[name] for name in arguments.cases]
    return arguments


def write(path, done, runs):
    """Writes all figures so far, so that they survive the loss of the machine."""
    if not path:
        return
    behind = [{"command": list(command), "runs": found} for command, found in runs.found.items()]
    pathlib.Path(path).write_text(json.dumps({"cores": os.cpu_count(), "tables": done, "commands": behind}, indent=1) + "\n")


def main():
    arguments = options()
    runs, done = Runs(arguments.timeout), []
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # SIGTERM ends a run as Ctrl-C does
    try:
        compare(arguments, runs, done)
    except KeyboardInterrupt:
        print("\nstopped by the user", file=sys.stderr)
        show_rest(arguments, runs, done)
        return 130
    finally:
        write(arguments.json, done, runs)
    through = all(any("error" not in row for row in one["rows"]) for one in done)
    same = all(len({row["params"] for row in one["rows"] if "error" not in row}) <= 1 for one in done)
    return 0 if through and same else 1


if __name__ == "__main__":
    sys.exit(main())
