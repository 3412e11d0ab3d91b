# SPDX-License-Identifier: Apache-2.0
"""Keeps what a layer is built from within what the layer may use."""

def closure_test(name, targets, allowed):
    """Fails if the targets depend, directly or not, on anything outside the allowed packages and targets.

    Visibility and declared dependencies are checked one edge at a time; this looks at the whole closure.

    Args:
      name: the test.
      targets: labels in full, such as "//broker/core:core".
      allowed: what may be in the closure besides these targets' own packages: a label for one target, such as
        "@system//:absl", a package for all of its targets, such as "//dataplane/ndk", or "//dataplane/..." for those of
        the packages below it, too.
    """
    native.genquery(
        name = name + "_closure",
        testonly = True,
        # Without the package groups that "visibility" names.
        expression = "kind('rule|file', %s)" % " + ".join(["deps(%s)" % target for target in targets]),
        opts = ["--noimplicit_deps"],
        scope = targets,
    )
    native.sh_test(
        name = name,
        size = "small",
        srcs = ["//bazel:closure_test.sh"],
        args = ["$(location :%s_closure)" % name] + [target.split(":")[0] for target in targets] + allowed,
        data = [":%s_closure" % name],
    )
