# SPDX-License-Identifier: Apache-2.0
"""One engine's run in a process of its own: its last line as JSON, or a sentence on why there is none."""
import json
import os
import signal
import subprocess
import tempfile
import time

POLL_S = 0.1
GRACE_S = 10


def used_bytes():
    """Memory in use by the machine's programs, without the page cache; 0 if the kernel does not report it."""
    try:
        with open("/proc/meminfo") as lines:
            fields = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        return fields["MemTotal"] - fields["MemAvailable"]
    except (OSError, KeyError, ValueError):
        return 0


def end(process):
    """Ends the child and the processes it started: SIGTERM first, SIGKILL after GRACE_S."""
    for number, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
        try:
            return process.wait(patience_s)
        except subprocess.TimeoutExpired:
            continue


def watch(process, timeout_s):
    """Waits for the child; returns the largest rise of the machine's used memory, and whether the time ran out."""
    begin_bytes, most, deadline = used_bytes(), 0, time.monotonic() + timeout_s
    while process.poll() is None:
        if time.monotonic() > deadline:
            return most, True
        time.sleep(POLL_S)
        most = max(most, used_bytes() - begin_bytes)
    return most, False


def last_object(text):
    """The JSON object on the last line, or nothing."""
    try:
        found = json.loads(text.strip().splitlines()[-1])
        return found if isinstance(found, dict) else None
    except (IndexError, ValueError):
        return None


def reached(stderr):
    """The last step in an engine's progress output."""
    steps = [line for line in stderr.splitlines() if line.startswith("step ")]
    return f", at {steps[-1].split('  ')[0]}" if steps else ""


def why_ended(code, stderr):
    if code < 0:
        name = signal.Signals(-code).name
        return f"ended by {name}" + (", as the kernel does when the host is out of memory" if name == "SIGKILL" else "")
    lines = [line for line in stderr.strip().splitlines() if line.strip()]
    return f"exit code {code}: {lines[-1].strip() if lines else 'it printed nothing'}"


def run(command, timeout_s):
    """Runs `command` to its end. Returns its JSON object; `error` in it describes a failure."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        except OSError as error:
            return {"error": {"message": f"cannot be started: {error}"}}
        try:
            rise_bytes, late = watch(process, timeout_s)
        finally:
            end(process)  # also its child processes, and when the user stops the comparison
        out.seek(0)
        err.seek(0)
        found, said = last_object(out.read()) or {}, err.read()
        if late:
            return {"error": {"message": f"stopped after {timeout_s:g} s{reached(said)}"}}
        if "error" not in found and (process.returncode != 0 or not found):
            found["error"] = {"message": why_ended(process.returncode, said)}
        return found | {"machine_rise_bytes": rise_bytes}
