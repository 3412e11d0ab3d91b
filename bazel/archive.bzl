# SPDX-License-Identifier: Apache-2.0
"""One static archive of a library with all of this repository that it needs, for programs that are built elsewhere."""

def _cc_archive_impl(ctx):
    linking = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).linking_context
    parts = []
    flags = []
    for input in linking.linker_inputs.to_list():
        parts += [library.pic_static_library or library.static_library for library in input.libraries]
        flags += [flag for flag in input.user_link_flags if flag.startswith("-l")]
    archive = ctx.actions.declare_file("lib%s.a" % ctx.label.name)
    script = ["create " + archive.path] + ["addlib " + part.path for part in parts] + ["save", "end"]
    ctx.actions.run_shell(
        mnemonic = "Archive",
        inputs = parts,
        outputs = [archive],
        command = 'printf "%s\\n" "$@" | /usr/bin/ar -M',
        arguments = script,
    )
    libraries = ctx.actions.declare_file(ctx.label.name + ".libs")
    ctx.actions.write(libraries, " ".join(depset(flags).to_list()) + "\n")
    return [DefaultInfo(files = depset([archive, libraries]))]

# Of objects that can go into shared libraries, too. NAME.libs has the linker flags for what is not of this repository.
cc_archive = rule(
    implementation = _cc_archive_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
