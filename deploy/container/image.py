#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an OCI image: programs, the shared libraries that they need, and nothing that could be done without.

The image's bytes depend on the files that go in and on the arguments only, so that whoever builds it again can compare.
Needs no container engine and no privileges; the libraries are those of the machine, which is a Debian one.
"""

import argparse
import functools
import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import tarfile
import tempfile
import time

# Whoever has the number of the broker's user administers the broker. So nobody else is to have it: it is above what
# distributions, user namespaces (subuid(5)) and OpenShift give out, and below 2^31, where Kubernetes' numbers end.
USER = 2100004792
# An application's is any other: the one that images without a shell mostly have.
APPLICATION_USER = 65532
SOURCE = pathlib.Path(__file__).resolve().parents[2]
KEEPER = "/usr/sbin/rdma-broker-keeper"
DAEMON = "/usr/sbin/rdma-brokerd"
CONFIGURATION = "/etc/rdma-broker/rdma-brokerd.toml"
EXAMPLES = ("key_value", "many_peers", "paused_listener", "request_reply", "storage_client", "storage_server")

IMAGES = {
    "rdma-broker": {
        "description": "Broker of RDMA connections",
        "user": USER,
        "programs": {
            DAEMON: "broker/rdma-brokerd",
            KEEPER: "broker/keeper/rdma-broker-keeper",
            "/usr/bin/rdma-brokerctl": "client/ctl/rdma-brokerctl",
            # For the folder of a node, which the kubelet makes for root.
            "/usr/bin/chown": "/usr/bin/chown",
        },
        "files": {CONFIGURATION: SOURCE / "deploy/container/rdma-brokerd.toml"},
        "folders": ("/run/rdma-broker", "/run/rdma-broker-state"),
        # A broker whose loop is stuck for so long does not come back: as in deploy/systemd/rdma-brokerd.service.
        "entrypoint": [KEEPER, "--watchdog", "30", "--log-format", "json", "--", DAEMON],
        "command": ["--config", CONFIGURATION],
    },
    "rdma-broker-examples": {
        "description": "Examples of programs that use the broker of RDMA connections",
        "user": APPLICATION_USER,
        "programs": {f"/usr/bin/{name}": f"client/examples/{name}" for name in EXAMPLES},
        "files": {},
        "folders": (),
        "entrypoint": [],
        "command": [],
    },
}

TEXTS = {
    "/etc/passwd": f"root:x:0:0::/:/nonexistent\nrdma-broker:x:{USER}:{USER}::/:/nonexistent\n",
    "/etc/group": f"root:x:0:\nrdma:x:{USER}:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
# A library of Debian may be named by either.
LINKS = {"/lib": "usr/lib", "/lib64": "usr/lib64"}


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def in_usr(path):
    """The one name in the image of what /lib and /usr/lib both lead to."""
    return path if path.startswith(("/usr/", "/etc/")) else f"/usr{path}"


def libraries_of(file):
    """The paths of the dynamic linker and of all libraries that it would load for the file."""
    for line in output_of("ldd", str(file)).splitlines():
        name, _, target = line.partition(" => ")
        path = (target or name).split("(")[0].strip()
        if path == "not found":
            raise SystemExit(f"image.py: {file} needs {name.strip()}, which is not installed here")
        if path.startswith("/"):
            yield path


def providers():
    """What libibverbs loads by name: the drivers of devices, and the files that name them."""
    for path in output_of("dpkg-query", "--listfiles", "ibverbs-providers").split():
        if path.startswith("/etc/libibverbs.d/") or "/libibverbs/" in path:
            if os.path.isfile(path):
                yield path


def packages_of(paths):
    """The Debian packages that these files are from."""
    queries = set()
    for path in paths:
        real = os.path.realpath(path)
        # Packages from before /lib led to /usr/lib are registered by the old names.
        queries |= {real, real.removeprefix("/usr")}
    found = subprocess.run(["dpkg-query", "--search", *sorted(queries)], capture_output=True, text=True, check=False)
    return sorted({line.split(":")[0] for line in found.stdout.splitlines() if not line.startswith("diversion ")})


def debian_files(programs):
    """The layer that changes with Debian only: by path in the image, where the contents are or what they are."""
    files = dict(TEXTS)
    plugins = list(providers())
    wanted = [path for path in plugins if path.endswith(".so")] + programs
    taken = sorted({library for file in wanted for library in libraries_of(file)} | set(plugins))
    files |= {in_usr(path): pathlib.Path(path) for path in taken}
    # Where scanners for vulnerabilities look in images that have no package manager.
    for package in packages_of(taken + [path for path in programs if path.startswith("/usr/bin/")]):
        files[f"/var/lib/dpkg/status.d/{package}"] = output_of("dpkg-query", "--status", package)
        files[f"/usr/share/doc/{package}/copyright"] = pathlib.Path(f"/usr/share/doc/{package}/copyright")
    return files


def stripped(program, folder):
    """The program without symbols, as a Debian package would have it."""
    copy = pathlib.Path(folder) / pathlib.Path(program).name
    subprocess.run(["strip", "-o", copy, program], check=True)
    return copy


def entry(path, created, **fields):
    info = tarfile.TarInfo(path.lstrip("/"))
    info.mtime = created
    for name, value in fields.items():
        setattr(info, name, value)
    return info


def folders_of(paths):
    return {str(parent) for path in paths for parent in pathlib.PurePosixPath(path).parents} - {"/"}


def layer(files, created, links=(), own_folders=()):
    """A layer's tar archive: nothing in it depends on who makes it, and when."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:  # USTAR's users end at 2^21.
        for path in sorted(folders_of([*files, *own_folders]) - set(own_folders)):
            archive.addfile(entry(path, created, type=tarfile.DIRTYPE, mode=0o755))
        for path in own_folders:
            archive.addfile(entry(path, created, type=tarfile.DIRTYPE, mode=0o750, uid=USER, gid=USER))
        for path, target in sorted(dict(links).items()):
            archive.addfile(entry(path, created, type=tarfile.SYMTYPE, linkname=target, mode=0o777))
        for path, source in sorted(files.items()):
            content = source.encode() if isinstance(source, str) else source.read_bytes()
            runs = path.startswith(("/usr/bin/", "/usr/sbin/")) or "/ld-linux" in path
            archive.addfile(entry(path, created, size=len(content), mode=0o755 if runs else 0o644), io.BytesIO(content))
    return out.getvalue()


class Layout:
    """An OCI image layout: blobs by their digests, and who refers to whom."""

    def __init__(self):
        self.files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}

    def add(self, media_type, blob):
        digest = hashlib.sha256(blob).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = blob
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(blob)}

    def add_json(self, kind, value):
        media_type = f"application/vnd.oci.image.{kind}.v1+json"
        return self.add(media_type, json.dumps(value, sort_keys=True, separators=(",", ":")).encode())

    def write(self, path, created):
        with tarfile.open(path, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for folder in sorted(folders_of(f"/{name}" for name in self.files)):
                archive.addfile(entry(folder, created, type=tarfile.DIRTYPE, mode=0o755))
            for name, blob in sorted(self.files.items()):
                archive.addfile(entry(name, created, size=len(blob), mode=0o644), io.BytesIO(blob))


def write_image(output, name, layers, labels, created):
    """Returns the manifest's digest."""
    recipe = IMAGES[name]
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created))
    labels = {**labels, "org.opencontainers.image.created": date}
    user = f"{recipe['user']}:{recipe['user']}"
    process = {"User": user, "Env": ["PATH=/usr/sbin:/usr/bin"], "WorkingDir": "/", "Labels": labels}
    if recipe["entrypoint"]:
        process |= {"Entrypoint": recipe["entrypoint"], "Cmd": recipe["command"]}
    layout = Layout()
    pressed = [gzip.compress(each, compresslevel=9, mtime=0) for each in layers]
    config = {
        "architecture": output_of("dpkg", "--print-architecture").strip(),
        "os": "linux",
        "created": date,
        "config": process,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in layers]},
        "history": [{"created": date, "created_by": "deploy/container/build"} for _ in layers],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": layout.add_json("config", config),
        "layers": [layout.add("application/vnd.oci.image.layer.v1.tar+gzip", each) for each in pressed],
        "annotations": labels,
    }
    described = layout.add_json("manifest", manifest)
    named = {**described, "annotations": {"org.opencontainers.image.ref.name": f"localhost/{name}:latest"}}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [named]}
    layout.files["index.json"] = json.dumps(index, sort_keys=True).encode()
    layout.write(output, created)
    return described["digest"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=IMAGES)
    parser.add_argument("output", help="the OCI archive that is written")
    parser.add_argument("--built", required=True, type=pathlib.Path, help="bazel-bin, where the programs are")
    parser.add_argument("--revision", required=True, help="the commit that they are of")
    parser.add_argument("--created", required=True, type=int, help="its time, in seconds since 1970")
    options = parser.parse_args()
    recipe = IMAGES[options.name]
    # An absolute path is Debian's.
    programs = {path: str(options.built / source) for path, source in recipe["programs"].items()}
    labels = {
        "org.opencontainers.image.title": options.name,
        "org.opencontainers.image.description": recipe["description"],
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.revision": options.revision,
    }
    make_layer = functools.partial(layer, created=options.created)
    with tempfile.TemporaryDirectory() as folder:
        own = {path: stripped(source, folder) for path, source in programs.items()}
        own |= recipe["files"] | {f"/usr/share/doc/{options.name}/copyright": SOURCE / "LICENSE"}
        layers = [
            make_layer(debian_files(list(programs.values())), links=LINKS),
            make_layer(own, own_folders=recipe["folders"]),
        ]
        digest = write_image(options.output, options.name, layers, labels, options.created)
    print(f"localhost/{options.name}:latest {digest}")


if __name__ == "__main__":
    main()
