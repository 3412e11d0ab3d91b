# SPDX-License-Identifier: Apache-2.0
"""The files that the rules look at."""

import fnmatch
import functools
import pathlib
import re

CPP = (".cc", ".h")


def is_test(path):
    return path.startswith("tests/") or "_test." in path or "/testing/" in path


class Tree:
    """Files below a root, by their paths relative to it."""

    def __init__(self, root, paths):
        self.root = root
        self.paths = paths

    @functools.lru_cache(maxsize=None)
    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def lines(self, path):
        return self.text(path).splitlines()

    def cpp(self):
        return [path for path in self.paths if path.endswith(CPP)]

    def code(self):
        """Everything that a person writes and a machine runs or compiles."""
        endings = CPP + (".py", ".bzl", ".sh", ".proto", "BUILD", "WORKSPACE")
        return [path for path in self.paths if path.endswith(endings) or self.is_script(path)]

    def is_script(self, path):
        return "." not in pathlib.Path(path).name and self.text(path).startswith("#!")

    def matches(self, paths, pattern):
        """(path, line number, match) for each match of the pattern in the files."""
        for path in paths:
            for number, line in enumerate(self.lines(path), 1):
                for match in re.finditer(pattern, line):
                    yield path, number, match

    def built(self):
        """The files that a target of a BUILD file names."""
        return {path for build in self.paths if pathlib.Path(build).name == "BUILD" for path in self._named_by(build)}

    def _named_by(self, build):
        folder = pathlib.PurePath(build).parent
        inside = {
            str(pathlib.PurePath(path).relative_to(folder)): path
            for path in self.paths
            if folder in pathlib.PurePath(path).parents
        }
        names = _Names(list(inside))
        exec(compile(self.text(build), build, "exec"), names)  # Starlark is nearly a part of Python.
        return {inside[name] for name in names.seen if name in inside}


class _Names(dict):
    """Names under which a BUILD file is run: every function notes the strings that it is given."""

    def __init__(self, files):
        super().__init__()
        self.seen = set()
        self.files = files

    def __missing__(self, name):
        if name in ("library", "test_library"):
            return self._library
        return self._glob if name == "glob" else self._note

    def _glob(self, include, exclude=(), **_):
        def chosen(file, patterns):
            return any(fnmatch.fnmatch(file, pattern) for pattern in patterns)

        return [file for file in self.files if chosen(file, include) and not chosen(file, exclude)]

    def _library(self, name, parts=None, private=(), **_):
        """By the rules of bazel/cc.bzl."""
        self.seen.add(name + "_test.cc")
        for part in [*(parts if parts is not None else [name, "testing/" + name]), *private]:
            self.seen.update(part + ending for ending in CPP)

    def _note(self, *positional, **named):
        self._collect([positional, named])
        return []

    def _collect(self, value):
        if isinstance(value, str):
            self.seen.add(value.removeprefix(":"))
        elif isinstance(value, dict):
            self._collect(list(value.values()))
        elif isinstance(value, (list, tuple)):
            for item in value:
                self._collect(item)
