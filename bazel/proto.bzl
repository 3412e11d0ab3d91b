# SPDX-License-Identifier: Apache-2.0

"""C++ code and descriptor sets from .proto files, by Debian's protoc and grpc_cpp_plugin.

Messages and services are separate libraries: a file that needs only messages does not pay for gRPC's headers.
Imports and includes are paths from the repository's root. What protoc's own package provides
(google/protobuf/*.proto) needs no mention.
"""

def _generate(name, src, outs, imports, flags):
    native.genrule(
        name = name,
        srcs = [src] + imports,
        outs = outs,
        cmd = "/usr/bin/protoc --proto_path=. %s $(execpath %s)" % (flags, src),
        visibility = ["//visibility:private"],
    )

def cc_proto_messages(name, srcs, imports = [], deps = [], **kwargs):
    """A cc_library of the messages of all `srcs`.

    Args:
      name: the library.
      srcs: .proto files of this package; they may import each other.
      imports: labels of the .proto files of other packages that they import.
      deps: the libraries, by this macro, of those.
      **kwargs: for the cc_library.
    """
    outs = []
    for src in srcs:
        stem = src[:-len(".proto")]
        files = [stem + ".pb.h", stem + ".pb.cc"]
        others = [other for other in srcs if other != src]
        _generate("_%s_%s" % (name, stem), src, files, others + imports, "--cpp_out=$(GENDIR)")
        outs += files
    native.cc_library(
        name = name,
        linkstatic = True,
        srcs = [out for out in outs if out.endswith(".cc")],
        hdrs = [out for out in outs if out.endswith(".h")],
        # A file without messages is referred to by nobody but those who ask protobuf for a service's description.
        alwayslink = True,
        deps = deps + ["@system//:protobuf"],
        **kwargs
    )

def cc_proto_services(name, srcs, imports = [], deps = [], **kwargs):
    """A cc_library of the gRPC services of all `srcs`: clients and servers.

    Args:
      name: the library.
      srcs: .proto files of this package, each with a service.
      imports: labels of all .proto files that they import.
      deps: the libraries of their messages, by cc_proto_messages.
      **kwargs: for the cc_library.
    """
    outs = []
    for src in srcs:
        stem = src[:-len(".proto")]
        files = [stem + ".grpc.pb.h", stem + ".grpc.pb.cc"]
        others = [other for other in srcs if other != src]
        flags = "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin --grpc_out=$(GENDIR)"
        _generate("_%s_%s" % (name, stem), src, files, others + imports, flags)
        outs += files
    native.cc_library(
        name = name,
        linkstatic = True,
        srcs = [out for out in outs if out.endswith(".cc")],
        hdrs = [out for out in outs if out.endswith(".h")],
        deps = deps + ["@system//:grpc++", "@system//:protobuf"],
        **kwargs
    )

def proto_descriptor_set(name, out, srcs, **kwargs):
    """A file with a FileDescriptorSet of all `srcs` and of all that they import, comments included.

    Args:
      name: the target.
      out: the file.
      srcs: .proto files of any package, together with all files that they import.
      **kwargs: for the genrule.
    """
    native.genrule(
        name = name,
        srcs = srcs,
        outs = [out],
        cmd = "/usr/bin/protoc --proto_path=. --include_imports --include_source_info --descriptor_set_out=$@ $(SRCS)",
        **kwargs
    )
