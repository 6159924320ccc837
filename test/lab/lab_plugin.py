"""What of the end-to-end tests is meant for this session.

One identity: as root they would also change to the ordinary user, whose turn comes with a cgroup of its own. And on a
kernel that has no tier at all only the lab's own tests make sense.
"""

import json
import os
import subprocess

import pytest


def is_wanted(item):
    params = getattr(item, "callspec", None) and item.callspec.params
    return os.environ["LAB_WHO"] != "root" or not params or params.get("who", "root") == "root"


def pytest_collection_modifyitems(config, items):
    config.hook.pytest_deselected(items=[item for item in items if not is_wanted(item)])
    items[:] = [item for item in items if is_wanted(item)]
    done = subprocess.run([os.environ["BRIG"], "doctor", "--json"], capture_output=True, check=False)
    if not json.loads(done.stdout)["ready"]:
        for item in items:
            if "/lab/" not in str(item.path):
                item.add_marker(pytest.mark.skip(reason="no tier is ready on this kernel"))
