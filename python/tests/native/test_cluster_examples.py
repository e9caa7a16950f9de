"""examples/cluster: the manifest fits Kubernetes' schemas, the batch script fits sbatch, and both start programs that exist."""

import pathlib
import re
import shlex
import subprocess

import pytest

CLUSTER = pathlib.Path(__file__).resolve().parents[3] / "examples" / "cluster"
EXAMPLE = CLUSTER.parent / "train_unet.py"

# From sbatch's manual: the long options that the script may have, and patterns of their values.
COUNT, TIME, MEMORY = r"[1-9]\d*", r"(?:\d+-)?\d{1,2}:\d{2}:\d{2}", r"\d+[KMGT]"
DIRECTIVES = {"job-name": r"[\w-]+", "nodes": COUNT, "ntasks-per-node": COUNT, "gpus-per-node": COUNT, "cpus-per-task": COUNT, "mem": MEMORY,
              "time": TIME, "signal": r"B:USR[12]@\d+", "requeue": None, "output": r"[\w%-]+\.out"}
TORCHRUN = {"nnodes", "nproc-per-node", "rdzv-id", "rdzv-backend", "rdzv-endpoint"}


def manifests():
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all((CLUSTER / "train-job.yaml").read_text()))


def directives(text):
    """The options that sbatch reads: #SBATCH comments before the first command."""
    out = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        if line.startswith("#SBATCH "):
            option, sign, value = line.removeprefix("#SBATCH --").partition("=")
            assert option in DIRECTIVES, f"sbatch has no --{option}"
            assert option not in out, f"--{option} twice"
            wanted = DIRECTIVES[option]
            assert not sign if wanted is None else re.fullmatch(wanted, value), f"--{option}={value}"
            out[option] = value
    return out


def options_of_example():
    """The options of the example's parser, found without importing PyTorch."""
    return set(re.findall(r'add_argument\("--([a-z-]+)"', EXAMPLE.read_text()))


def check_command(words):
    """Checks a command line: torchrun with its options, then the example, the store and the example's options."""
    assert words[0] == "torchrun"
    at = words.index("examples/train_unet.py")
    for word in words[1:at]:
        assert not word.startswith("--") or word[2:].partition("=")[0] in TORCHRUN, word
    for word in words[at + 2:]:
        assert not word.startswith("--") or word[2:].partition("=")[0] in options_of_example(), word


def test_kubernetes_takes_the_manifest():
    validate = pytest.importorskip("kubernetes_validate")
    service, job = manifests()
    for one in (service, job):
        validate.validate(one, validate.latest_version(), strict=True)
    # The schemas detect mistakes: an unknown field, text for a number, a missing part.
    for change in (lambda spec: spec.update(completion="2"), lambda spec: spec.update(completions="two"), lambda spec: spec.pop("template")):
        wrong = manifests()[1]
        change(wrong["spec"])
        with pytest.raises(validate.ValidationError):
            validate.validate(wrong, validate.latest_version(), strict=True)


def test_the_manifest_fits_together():
    service, job = manifests()
    spec = job["spec"]
    pod = spec["template"]["spec"]
    train, = pod["containers"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]} and service["spec"]["clusterIP"] == "None"
    assert pod["subdomain"] == service["metadata"]["name"]
    assert {mount["name"] for mount in train["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    options = dict(word[2:].split("=") for word in train["command"] if "=" in word)
    assert int(options["nnodes"]) == spec["completions"] == spec["parallelism"] and spec["completionMode"] == "Indexed"
    assert options["nproc-per-node"] == train["resources"]["limits"]["nvidia.com/gpu"]
    host, _, port = options["rdzv-endpoint"].partition(":")
    assert host == f"{job['metadata']['name']}-0.{service['metadata']['name']}" and int(port) == service["spec"]["ports"][0]["port"]
    check_command(train["command"])


def test_slurm_takes_the_batch_script():
    text = (CLUSTER / "train.sbatch").read_text()
    assert text.startswith("#!")
    subprocess.run(["bash", "-n", CLUSTER / "train.sbatch"], check=True)
    found = directives(text)
    assert {"nodes", "gpus-per-node", "time", "requeue"} <= set(found) and found["ntasks-per-node"] == "1"  # torchrun starts the other processes of a node
    command = re.search(r"^srun (.*?) &$", text.replace("\\\n", " "), re.M)[1]
    check_command(shlex.split(command))
    for wrong in ("#SBATCH --node=2\n", "#SBATCH --nodes=two\n", "#SBATCH --time=4 hours\n", "#SBATCH --requeue=1\n", "#SBATCH --nodes=1\n#SBATCH --nodes=2\n"):
        with pytest.raises(AssertionError):
            directives("#!/bin/bash\n" + wrong)
    assert directives("#!/bin/bash\necho\n#SBATCH --node=2\n") == {}  # sbatch reads no options after a command


def test_the_batch_script_runs(tmp_path):
    """srun, torchrun, scontrol and headrace are fakes that record their arguments: ranks, node, store and checkpoint must arrive."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, body in {"srun": 'exec "$@"', "torchrun": 'printf "%s\\n" "$@" > ran', "headrace": 'echo "{}" > "${@: -1}"',
                       "scontrol": "echo node7; echo node8"}.items():
        (tools / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (tools / name).chmod(0o755)
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "SLURM_JOB_NODELIST": "node[7-8]", "SLURM_NNODES": "2", "SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_ID": "31",
                   "SLURM_JOB_NAME": "t", "SLURM_SUBMIT_DIR": str(tmp_path)}
    script = [str(CLUSTER / "train.sbatch")]
    done = subprocess.run(["bash", *script], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode != 0 and "name the Zarr store" in done.stderr
    subprocess.run(["bash", *script], env={**environment, "STORE": "/data/a b.zarr"}, check=True, cwd=tmp_path, timeout=60)
    ran = (tmp_path / "ran").read_text().splitlines()
    assert ran[ran.index("--nnodes") + 1] == "2" and ran[ran.index("--rdzv-endpoint") + 1] == "node7:29500" and "/data/a b.zarr" in ran
    assert ran[ran.index("--checkpoint") + 1] == str(tmp_path / "train-t.pt") and (tmp_path / "stats.json").exists()
