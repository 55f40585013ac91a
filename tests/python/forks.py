# SPDX-License-Identifier: Apache-2.0
"""Calls in a forked process."""

import json
import os
import signal
import sys
import threading
import traceback

import castor


def in_a_fork(call, limit_seconds=20):
    """The result of `call`, as JSON has it. The child ends as a worker of a DataLoader does; one that does not is killed."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        end_of_child(call, writes)
    os.close(writes)
    watch = threading.Timer(limit_seconds, os.kill, (child, signal.SIGKILL))
    watch.start()
    with os.fdopen(reads) as pipe:
        result = pipe.read()
    _, status = os.waitpid(child, 0)
    watch.cancel()
    if status != 0:
        raise RuntimeError(f"the child ended with {os.waitstatus_to_exitcode(status)}")
    return json.loads(result)


def refusals(calls):
    """What each of `calls` is refused with; 'worked' where it is not."""
    messages = []
    for call in calls:
        try:
            call()
            messages.append("worked")
        except castor.Error as error:
            messages.append(str(error))
    return messages


def end_of_child(call, writes):
    status = 1
    try:
        os.write(writes, json.dumps(call()).encode())
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)
