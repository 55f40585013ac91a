# SPDX-License-Identifier: Apache-2.0
"""What save_optimizer keeps: a run of the core, whose store is in a folder, and beside it the values of the groups."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castor._boosted import names_of
from castor._errors import Error
from castor._quantized import digest_of_scales
from castor.booster._files import loaded, put, python_numbers, sync
from castor.booster._folders import MANIFEST
from castor.booster._saving import saving_in

if TYPE_CHECKING:
    from castor._boosted import BoostedOptimizer

Saved = list[tuple[dict[str, Any], list[str]]]  # of each group its values, and the names of its parameters
NEXT_GROUPS = "castor-next.groups"  # of a commit that may not have been made
OF_THE_CLASS = ("params", "param_names", "decoupled_weight_decay")  # not to be taken from another optimizer


def save_run(optimizer: BoostedOptimizer, folder: Path) -> None:
    """Replaces a run that the folder holds, which stays whole until then; in a folder of NVMe with durability='commit' by a
    commit."""
    if optimizer.castor_passes.waiting:
        optimizer.castor_passes.check_values()
    with contextlib.suppress(Error):  # values that the core refuses are refused by the next step
        optimizer.castor_follow_groups()
    if optimizer.castor_session.commits_in(os.fspath(folder)):
        return commit_run(optimizer, folder)
    with saving_in(folder) as made, in_use_by_none(folder):
        optimizer.castor_session.save(os.fspath(made))
        put_groups(optimizer, groups_file(made))
        put_run_in_place(made, folder)


def commit_run(optimizer: BoostedOptimizer, folder: Path) -> None:
    """The groups lie there before the commit, which is the moment from which they are valid."""
    put_groups(optimizer, folder / NEXT_GROUPS)
    try:
        optimizer.castor_session.save(os.fspath(folder))
    except Error as error:
        if error.kind == "usage":  # before a commit began
            (folder / NEXT_GROUPS).unlink(missing_ok=True)
        raise
    name_groups(folder)


def name_groups(folder: Path) -> None:
    os.replace(folder / NEXT_GROUPS, groups_file(folder))
    sync(folder)
    for file in set(folder.glob("castor-*.groups")) - {groups_file(folder)}:
        file.unlink()


@contextlib.contextmanager
def in_use_by_none(folder: Path) -> Iterator[None]:
    """Meanwhile nothing can open a store of NVMe in the folder, whose files would be taken for those of an old run."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            why = "a run keeps a store there; wait until that ends, or name another folder"
            raise Error(f"cannot save in {folder}: {why}", "io") from None
        yield
    finally:
        os.close(held)


def put_run_in_place(made: Path, folder: Path) -> None:
    """Files of other runs have other names, but for the manifest, which says which of them are valid."""
    names = {file.name for file in made.iterdir()}
    for name in names - {MANIFEST}:
        os.replace(made / name, folder / name)
    sync(folder)
    os.replace(made / MANIFEST, folder / MANIFEST)
    sync(folder)
    for file in (*folder.glob("castor-*-0.data"), *folder.glob("castor-*.groups")):
        if file.name not in names:
            file.unlink()


def groups_file(folder: Path) -> Path:
    """That of the run whose manifest is in the folder."""
    return folder / f"castor-{hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()[:16]}.groups"


def put_groups(optimizer: BoostedOptimizer, file: Path) -> None:
    groups = groups_to_save(optimizer)
    scales = digest_of_scales(optimizer.castor_scales)
    put({"groups": groups, "sha256": digest_of(groups), "scales": scales}, file, use_safetensors=False)


def digest_of(groups: Any) -> str:
    return hashlib.sha256(repr(groups).encode()).hexdigest()


def groups_to_save(optimizer: BoostedOptimizer) -> Saved:
    return [
        (
            {key: value for key, value in python_numbers(group).items() if key not in OF_THE_CLASS and is_plain(value)},
            names_of(group, optimizer.castor_names),
        )
        for group in optimizer.param_groups
    ]


def is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def load_run(optimizer: BoostedOptimizer, folder: Path) -> None:
    """An error leaves the groups as they were."""
    before = [dict(group) for group in optimizer.param_groups]
    try:
        saved = saved_groups(folder)
        if saved and saved.get("scales") != digest_of_scales(optimizer.castor_scales):
            why = "was saved beside weights of other scales than the model's, which bitsandbytes keeps beside their bytes"
            raise Error(f"the run in {folder} {why}; boost the model whose run it is", "usage")
        give_groups(optimizer, saved["groups"] if saved else [])
        optimizer.castor_follow_groups()
        optimizer.castor_resume(folder)
    except BaseException:
        for group, values in zip(optimizer.param_groups, before):
            group.clear()
            group.update(values)
        raise


def saved_groups(folder: Path) -> dict[str, Any]:
    """Empty of a run that another program has saved. Where a program ended right after its commit, those of that commit have
    the name that they had before."""
    if not (folder / MANIFEST).is_file():
        return {}
    found = [file for file in (groups_file(folder), folder / NEXT_GROUPS) if file.is_file()]
    if not found:
        return {}
    saved = loaded(found[0])
    if not isinstance(saved, dict) or saved.get("sha256") != digest_of(saved.get("groups")):
        raise Error(f"{found[0]} is damaged: its values are not those that were saved; load another checkpoint", "io")
    return saved


def give_groups(optimizer: BoostedOptimizer, saved: Saved) -> None:
    for number, group in enumerate(optimizer.param_groups):
        names = set(names_of(group, optimizer.castor_names))
        given: dict[str, Any] = {}
        for values, of_group in saved:
            if names.isdisjoint(of_group):
                continue
            for key, value in values.items():
                if given.setdefault(key, value) != value:
                    raise Error(
                        f"parameter group {number} has parameters that were saved in groups of other values ({key} "
                        f"{given[key]} and {value}); make the groups that were saved",
                        "usage",
                        key,
                    )
        group.update(given)
