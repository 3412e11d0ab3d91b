#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks into the container image that deploy/container/build makes.

image_test.py BUILT: a bazel-bin with the programs. Needs root, to see the image as its own processes do. Prints
"passed|failed NAME" for each check.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = {"usr/bin/chown", "usr/sbin/rdma-broker-keeper", "usr/bin/rdma-brokerctl", "usr/sbin/rdma-brokerd"}
# What a node downloads, and what it then has: half as much again as it takes. Whoever needs more says here what for.
MOST_BYTES = {"packed": 20_000_000, "unpacked": 55_000_000}
DAEMON = "/usr/sbin/rdma-brokerd"


def build(output, built, **environment):
    command = [SOURCE / "deploy/container/build", "--built", built, output]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | environment).stdout


class Image:
    """What an archive has in it, read without any program for containers."""

    def __init__(self, path):
        with tarfile.open(path) as archive:
            self.blobs = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
        self.index = json.loads(self.blobs["index.json"])
        (self.described,) = self.index["manifests"]
        self.manifest = json.loads(self.blob(self.described))
        self.config = json.loads(self.blob(self.manifest["config"]))
        self.layers = [gzip.decompress(self.blob(layer)) for layer in self.manifest["layers"]]
        self.members = [member for layer in self.layers for member in tarfile.open(fileobj=io.BytesIO(layer))]
        self.process = self.config["config"]

    def blob(self, descriptor):
        blob = self.blobs[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert len(blob) == descriptor["size"] and digest_of(blob) == descriptor["digest"], descriptor
        return blob

    def unpack(self, folder):
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
                archive.extractall(folder)


def digest_of(blob):
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def runs(member):
    return member.isfile() and member.mode & 0o111


def no_shell(image):
    programs = {member.name for member in image.members if runs(member) and "ld-linux" not in member.name}
    return [f"{name} can be executed" for name in sorted(programs ^ PROGRAMS)]


def no_rights(image):
    for member in image.members:
        if member.mode & 0o6000 or (member.mode & 0o002 and not member.issym()):
            yield f"{member.name} has mode {member.mode:o}"
        if not (member.isfile() or member.isdir() or member.issym()):
            yield f"{member.name} is neither file nor folder nor link"
        if (member.uid, member.gid) != (0, 0) and member.name not in ("run/rdma-broker", "run/rdma-broker-state"):
            yield f"{member.name} belongs to {member.uid}:{member.gid}"
        # One name for one thing, as a link that a layer makes of a folder hides it.
        if member.name.startswith(("lib/", "lib64/")):
            yield f"{member.name} is not below usr"


def not_root(image):
    user, group = image.process["User"].split(":")
    return [] if user.isdigit() and group.isdigit() and 0 not in (int(user), int(group)) else [image.process["User"]]


def keeper_first(image):
    entry = image.process["Entrypoint"]
    wanted = ["/usr/sbin/rdma-broker-keeper", "--", DAEMON]
    return [] if [each for each in entry if each in wanted] == wanted else [str(entry)]


def logs_alike(image, root):
    """The keeper by an option, the daemon by its configuration."""
    keeper = image.process["Entrypoint"][image.process["Entrypoint"].index("--log-format") + 1]
    configured = tomllib.loads((pathlib.Path(root) / "etc/rdma-broker/rdma-brokerd.toml").read_text("utf-8"))
    return [] if keeper == configured["log"]["format"] == "json" else [f"{keeper} and {configured['log']}"]


def labelled(image):
    labels = image.manifest["annotations"]
    for key, wanted in (
        ("title", "rdma-broker"), ("description", ".+"), ("licenses", "Apache-2.0"),
        ("revision", "[0-9a-f]{40}(-dirty)?|unknown"), ("created", r"\d{4}-\d\d-\d\dT.*Z"),
    ):
        if not re.fullmatch(wanted, labels.get(f"org.opencontainers.image.{key}", "")):
            yield f"{key}: {labels.get(f'org.opencontainers.image.{key}')}"
    if labels != image.process["Labels"]:
        yield "its configuration has others"


def whole(image):
    """Whether the digests are what they say; those of packed blobs are checked as they are read."""
    said = image.config["rootfs"]["diff_ids"]
    return [] if said == [digest_of(layer) for layer in image.layers] else [str(said)]


def small(image):
    sizes = {"packed": sum(layer["size"] for layer in image.manifest["layers"]),
             "unpacked": sum(member.size for member in image.members)}
    for what, size in sizes.items():
        print(f"  {what}: {size / 1e6:.1f} MB (at most {MOST_BYTES[what] / 1e6:.0f})")
        if size > MOST_BYTES[what]:
            yield f"{what}: {size} bytes; {MOST_BYTES[what]} is the limit"


def drivers_there(image):
    """libibverbs loads what the files in /etc/libibverbs.d name; without them a device is none."""
    names = {member.name for member in image.members}
    drivers = {pathlib.Path(name).stem for name in names if name.endswith(".driver")}
    found = {match[1] for name in names if (match := re.search(r"/libibverbs/lib(\w+)-rdmav\d+\.so$", name))}
    yield from (f"{name} is named, and not there" for name in sorted(drivers - found))
    yield from (f"{name} is missing" for name in sorted({"mlx5", "irdma", "bnxt_re", "efa", "rxe", "siw"} - drivers))


def packages_named(image):
    """Of what each package is, a scanner is to know."""
    names = {member.name.rpartition("/")[2] for member in image.members if "/status.d/" in member.name}
    names.discard("status.d")
    licences = {member.name.split("/")[3] for member in image.members if member.name.endswith("/copyright")}
    wanted = {"libc6", "libgrpc29", "libibverbs1", "ibverbs-providers", "libssl3", "coreutils"}
    return [f"{name} is not named" for name in sorted(wanted - names)] + \
        [f"{name} has no licence" for name in sorted(names - licences)]


def run_in(image, root, command):
    """A process with the image as its root, as a container has it: no network, no rights, nothing of this machine's."""
    user, group = image.process["User"].split(":")
    confined = ["unshare", "--net", "--root", root, "--setgid", group, "--setuid", user]
    return subprocess.run([*confined, *command], capture_output=True, text=True, env={}, check=False)


def libraries_found(image, root):
    linker = next(f"/{member.name}" for member in image.members if "ld-linux" in member.name)
    for member in image.members:
        if member.isfile() and (runs(member) or ".so" in member.name) and f"/{member.name}" != linker:
            said = run_in(image, root, [linker, "--list", f"/{member.name}"])
            missing = [line.strip() for line in said.stdout.splitlines() if "not found" in line]
            if said.returncode != 0 or missing:
                yield f"{member.name}: {missing} {said.stderr}"


def configuration_fine(image, root):
    said = run_in(image, root, [image.process["Entrypoint"][-1], "--check-config", *image.process["Cmd"]])
    return [] if said.returncode == 0 and ": fine" in said.stdout else [said.stdout + said.stderr]


def programs_start(image, root):
    for name in sorted(PROGRAMS):
        said = run_in(image, root, [f"/{name}", "--help"])
        if said.returncode != 0 or not said.stdout:
            yield f"{name}: {said.returncode} {said.stderr}"


def main():
    built = sys.argv[1]
    failed = False
    if os.geteuid() != 0:
        sys.exit("image_test.py needs root, to see the image as its own processes do")

    def report(name, problems):
        nonlocal failed
        problems = list(problems)
        for problem in problems:
            print(f"  {problem}")
        print("failed" if problems else "passed", f"image: {name}", flush=True)
        failed |= bool(problems)

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        first, second, root = (os.path.join(folder, name) for name in ("first.tar", "second.tar", "root"))
        said = build(first, built), build(second, built, TZ="Asia/Tokyo", LC_ALL="C", HOME="/nonexistent")
        image = Image(first)
        same = pathlib.Path(first).read_bytes() == pathlib.Path(second).read_bytes()
        report("two builds are the same, byte for byte", [] if same and said[0] == said[1] else said)
        named = image.described["digest"] in said[0]
        report("its digest is printed", [] if named else said[:1])
        image.unpack(root)
        os.chmod(root, 0o755)
        for name, check in (
            ("its digests are true", whole), ("there is no program but its own, and so no shell", no_shell),
            ("nothing in it lends rights", no_rights), ("its user is not root, and a number", not_root),
            ("the keeper starts the daemon", keeper_first), ("it says what it is", labelled), ("it is small", small),
            ("it has the drivers of devices", drivers_there),
            ("it names the packages that it has files of", packages_named),
        ):
            report(name, check(image))
        for name, check in (("every library is there", libraries_found), ("each program starts", programs_start),
                            ("its configuration is fine", configuration_fine),
                            ("the daemon and the keeper log JSON", logs_alike)):
            report(name, check(image, root))
        command = ["skopeo", "inspect", f"oci-archive:{first}"]
        read = subprocess.run(command, capture_output=True, text=True, check=False)
        report("skopeo reads it", [] if read.returncode == 0 else [read.stderr])
    sys.exit(failed)


if __name__ == "__main__":
    main()
