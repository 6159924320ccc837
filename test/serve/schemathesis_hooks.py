"""What schemathesis cannot know by itself: ids that there are, and values that lead further than a refusal.

Only what fits the document is changed, so that what breaks it still does. Loaded by SCHEMATHESIS_HOOKS.
"""

import os
import re

import schemathesis

SANDBOX = os.environ["BRIG_SANDBOX"]
POLICIES = ["interpreter", "base", "offline"]
COMMANDS = [["true"], ["false"], ["cat"], ["sh", "-c", "echo out; echo err >&2; exit 7"], ["head", "-c", "100000", "/dev/urandom"]]
# They would take away what the others need.
ENDS_IT = {"deleteSandbox", "pauseSandbox"}

count = 0


def steer_body(operation, body):
    """Of a body that fits: something that is there, and does not last."""
    if isinstance(body.get("template"), str) and body["template"]:
        body["template"] = "base"
    if isinstance(body.get("policy"), str) and re.fullmatch("[a-z][a-z0-9-]*", body["policy"]):
        body["policy"] = POLICIES[count % len(POLICIES)]
    command = body.get("command")
    if isinstance(command, list) and command and all(isinstance(c, str) for c in command) and count % 2:
        body["command"] = COMMANDS[count % len(COMMANDS)]
    timeout = body.get("timeout")
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and 1 <= timeout <= 86400:
        # Of the sandbox that the others need, or of what is to be gone soon.
        body["timeout"] = 600 if operation in ("changeSandbox", "resumeSandbox") else min(timeout, 10)
    elif timeout is None and operation in ("createSandbox", "run", "exec"):
        body["timeout"] = 10
    if operation == "createKey":
        body["tenant"] = "fuzz"


@schemathesis.hook
def before_call(ctx, case, kwargs):
    global count
    count += 1
    operation = case.operation.definition.raw.get("operationId")
    parameters = case.path_parameters or {}
    if operation not in ENDS_IT and re.fullmatch("[a-z0-9]{1,40}", str(parameters.get("id", "-"))):
        parameters["id"] = SANDBOX
    elif operation in ENDS_IT and parameters.get("id") == SANDBOX:
        parameters["id"] = "a" * 12
    if re.fullmatch("[a-z][a-z0-9-]*", str(parameters.get("name", "-"))):
        parameters["name"] = POLICIES[count % len(POLICIES)]
    if isinstance(case.body, dict):
        steer_body(operation, case.body)
