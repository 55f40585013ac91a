# SPDX-License-Identifier: Apache-2.0
"""Combines the runs of one case: a row per engine, and the table of the rows."""
import statistics

GIB = 2**30
HEAD = f"{'step s (min … max)':<28} {'of FSDP2':<9} {'device GiB':<11} {'host GiB':<9} loss first → last"


def n_left_out(n_steps):
    """Steps at the start that do not count, by the rule of `castor train`: 2 of more than 4, otherwise none."""
    return 2 if n_steps > 4 else 0


def step_times(found):
    """`step_s` of one run in castor's form, also for an engine that lists every step."""
    steps = found["step_s"]
    if isinstance(steps, dict):
        return steps
    n = n_left_out(len(steps))
    counted = steps[n:]
    return {"median": statistics.median(counted), "min": min(counted), "max": max(counted), "n_left_out": n}


def device_peak(found):
    """Peak of the device memory that an engine's allocator held; None without a device."""
    return found.get("peak_device_bytes") or found.get("peak_bytes", {}).get("device")


def combine(engine, runs):
    """One row from an engine's runs: the median of their medians, the extremes of their steps, the highest peaks."""
    failed = [found for found in runs if "error" in found]
    if failed or not runs:
        return {"engine": engine, "error": failed[0]["error"]["message"] if failed else "did not run"}
    times = [step_times(found) for found in runs]
    peaks = [peak for peak in map(device_peak, runs) if peak is not None]
    return {
        "engine": engine,
        "n_rounds": len(runs),
        "n_left_out": times[0]["n_left_out"],
        "step_s": {
            "median": statistics.median(one["median"] for one in times),
            "min": min(one["min"] for one in times),
            "max": max(one["max"] for one in times),
        },
        "params": runs[0].get("params"),
        "peak_device_bytes": max(peaks) if peaks else None,
        "peak_rss_bytes": max(found["peak_rss_bytes"] for found in runs),
        "peak_pinned_bytes": max(found.get("peak_pinned_bytes") or 0 for found in runs),
        "machine_rise_bytes": max(found.get("machine_rise_bytes", 0) for found in runs),
        "losses": [runs[0]["losses"][0], runs[0]["losses"][-1]],
    }


def add_ratios(rows):
    """Sets each row's median step over that of FSDP2, None if either has no figures."""
    base = next((row["step_s"]["median"] for row in rows if row["engine"] == "fsdp2" and "error" not in row), None)
    for row in rows:
        row["ratio_to_fsdp2"] = row["step_s"]["median"] / base if base and "error" not in row else None
    return rows


def notes(rows):
    """Warnings about these rows, a sentence each."""
    ran = [row for row in rows if "error" not in row]
    said = []
    if len({row["params"] for row in ran}) > 1:
        said.append("NOT the same model: " + ", ".join(f"{row['engine']} has {row['params']:,} parameters" for row in ran))
    firsts = [row["losses"][0] for row in ran]
    if len(firsts) > 1 and not max(firsts) - min(firsts) <= 0.01 * abs(min(firsts)):  # true for a nan, too
        said.append(f"first losses are more than 1 % apart ({min(firsts):.4f} to {max(firsts):.4f}): not the same start")
    for row in ran:  # a driver may pin memory that the kernel does not count for the process
        if row["machine_rise_bytes"] > 1.1 * row["peak_rss_bytes"] + GIB:
            rise = row["machine_rise_bytes"] / GIB
            said.append(f"{row['engine']}: the machine's used memory rose by {rise:.1f} GiB, more than its host peak says")
    return said


def line(row, width):
    if "error" in row:
        return f"{row['engine']:<{width}} {row['error']}"
    step, peak, ratio = row["step_s"], row["peak_device_bytes"], row["ratio_to_fsdp2"]
    times = f"{step['median']:.4f} ({step['min']:.4f} … {step['max']:.4f})"
    share = "–" if ratio is None else f"{ratio:.3f}"
    device = "–" if peak is None else f"{peak / GIB:.3f}"
    return (
        f"{row['engine']:<{width}} {times:<28} {share:<9} {device:<11} {row['peak_rss_bytes'] / GIB:<9.2f} "
        f"{row['losses'][0]:.4f} → {row['losses'][1]:.4f}"
    )


def table(title, rows):
    width = max(len("engine"), *(len(row["engine"]) for row in rows))
    lines = [title, f"{'engine':<{width}} {HEAD}", *(line(row, width) for row in rows)]
    ran = [row for row in rows if "error" not in row]
    if ran:
        fewest, most = min(row["n_rounds"] for row in ran), max(row["n_rounds"] for row in ran)
        n_runs = str(most) if fewest == most else f"{fewest} to {most}"
        lines.append(f"median of {n_runs} runs' medians; the first {ran[0]['n_left_out']} steps of each run are left out")
    return "\n".join(lines + notes(rows))
