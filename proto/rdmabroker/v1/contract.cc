// SPDX-License-Identifier: Apache-2.0

#include "proto/rdmabroker/v1/contract.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;
using google::protobuf::SourceLocation;

// Calls `visitor` with every message, enum and service of a file, nested ones included.
template <typename Visitor>
void VisitMessage(const Descriptor& message, Visitor& visitor) {
  visitor.Visit(message);
  for (int i = 0; i < message.nested_type_count(); ++i) VisitMessage(*message.nested_type(i), visitor);
  for (int i = 0; i < message.enum_type_count(); ++i) visitor.Visit(*message.enum_type(i));
}

template <typename Visitor>
void VisitFile(const FileDescriptor& file, Visitor& visitor) {
  for (int i = 0; i < file.message_type_count(); ++i) VisitMessage(*file.message_type(i), visitor);
  for (int i = 0; i < file.enum_type_count(); ++i) visitor.Visit(*file.enum_type(i));
  for (int i = 0; i < file.service_count(); ++i) visitor.Visit(*file.service(i));
}

std::string TypeOf(const FieldDescriptor& field) {
  if (field.message_type() != nullptr) return field.message_type()->full_name();
  if (field.enum_type() != nullptr) return field.enum_type()->full_name();
  return field.type_name();
}

std::string FieldLine(const FieldDescriptor& field) {
  std::string line = absl::StrCat(field.number(), " ", field.name(), ": ");
  if (field.is_repeated()) absl::StrAppend(&line, "repeated ");
  if (field.has_optional_keyword()) absl::StrAppend(&line, "optional ");
  absl::StrAppend(&line, TypeOf(field));
  if (const auto* oneof = field.real_containing_oneof()) absl::StrAppend(&line, " in oneof ", oneof->name());
  return line;
}

std::string MethodLine(const MethodDescriptor& method) {
  return absl::StrCat(method.name(), ": ", method.client_streaming() ? "stream " : "", method.input_type()->full_name(),
                      " -> ", method.server_streaming() ? "stream " : "", method.output_type()->full_name());
}

template <typename Descriptor>
std::string Heading(const char* kind, const Descriptor& descriptor) {
  return absl::StrCat(kind, " ", descriptor.full_name(), " in ", descriptor.file()->name());
}

// Collects the members of what it visits.
class Describer {
 public:
  void Visit(const Descriptor& message) {
    std::vector<std::pair<int, std::string>> fields;
    for (int i = 0; i < message.field_count(); ++i) {
      fields.emplace_back(message.field(i)->number(), FieldLine(*message.field(i)));
    }
    Add(Heading("message", message), std::move(fields));
  }

  void Visit(const EnumDescriptor& enumeration) {
    std::vector<std::pair<int, std::string>> values;
    for (int i = 0; i < enumeration.value_count(); ++i) {
      const auto& value = *enumeration.value(i);
      values.emplace_back(value.number(), absl::StrCat(value.number(), " ", value.name()));
    }
    Add(Heading("enum", enumeration), std::move(values));
  }

  void Visit(const ServiceDescriptor& service) {
    std::vector<std::pair<int, std::string>> methods;
    for (int i = 0; i < service.method_count(); ++i) methods.emplace_back(0, MethodLine(*service.method(i)));
    Add(Heading("service", service), std::move(methods));
  }

  Contract Take() { return std::move(contract_); }

 private:
  void Add(std::string heading, std::vector<std::pair<int, std::string>> members) {
    std::sort(members.begin(), members.end());
    auto& lines = contract_[std::move(heading)];
    for (auto& [number, line] : members) lines.push_back(std::move(line));
  }

  Contract contract_;
};

// Collects the names of what has no comment.
class CommentSeeker {
 public:
  void Visit(const Descriptor& message) {
    Check(message);
    for (int i = 0; i < message.field_count(); ++i) Check(*message.field(i));
    for (int i = 0; i < message.real_oneof_decl_count(); ++i) Check(*message.oneof_decl(i));
  }

  void Visit(const EnumDescriptor& enumeration) {
    Check(enumeration);
    for (int i = 0; i < enumeration.value_count(); ++i) Check(*enumeration.value(i));
  }

  void Visit(const ServiceDescriptor& service) {
    Check(service);
    for (int i = 0; i < service.method_count(); ++i) Check(*service.method(i));
  }

  std::vector<std::string> Take() { return std::move(undocumented_); }

 private:
  template <typename Descriptor>
  void Check(const Descriptor& descriptor) {
    SourceLocation location;
    const bool found = descriptor.GetSourceLocation(&location);
    const std::string comment = found ? location.leading_comments + location.trailing_comments : "";
    if (comment.find_first_not_of(" \n") == std::string::npos) undocumented_.push_back(descriptor.full_name());
  }

  std::vector<std::string> undocumented_;
};

template <typename Collector>
auto Collect(const ProtoFiles& files) {
  Collector collector;
  for (const FileDescriptor* file : files) VisitFile(*file, collector);
  return collector.Take();
}

// A member's number, or its name where it has none.
std::string_view Key(std::string_view member) { return member.substr(0, member.find(' ')); }

std::string_view NameOf(std::string_view member) {
  const size_t colon = member.find(':');
  const std::string_view head = member.substr(0, colon);
  const size_t blank = head.find(' ');
  return blank == std::string_view::npos ? head : head.substr(blank + 1);
}

void CompareMembers(const std::string& heading, const std::vector<std::string>& released,
                    std::vector<std::string> current, ContractDifferences& differences) {
  std::vector<std::string> changed;
  for (const std::string& member : released) {
    if (std::erase(current, member) == 0) changed.push_back(member);
  }
  for (const std::string& member : changed) {
    const auto successor = std::find_if(current.begin(), current.end(), [&](const std::string& other) {
      return Key(other) == Key(member) || NameOf(other) == NameOf(member);
    });
    if (successor == current.end()) {
      differences.broken.push_back(absl::StrCat(heading, ": \"", member, "\" is gone"));
      continue;
    }
    differences.broken.push_back(absl::StrCat(heading, ": \"", member, "\" has become \"", *successor, "\""));
    current.erase(successor);
  }
  for (const std::string& member : current) {
    differences.unlisted.push_back(absl::StrCat(heading, ": \"", member, "\" is new"));
  }
}

}  // namespace

Contract DescribeContract(const ProtoFiles& files) { return Collect<Describer>(files); }

std::vector<std::string> FindUndocumented(const ProtoFiles& files) { return Collect<CommentSeeker>(files); }

std::string ContractText(const Contract& contract) {
  std::string text =
      "# What version 1 of the wire contract promises; broker.proto says what may change. Lines are only ever added, "
      "by\n"
      "# bazel run //proto/rdmabroker/v1:contract_test -- --rewrite\n";
  for (const auto& [heading, members] : contract) {
    absl::StrAppend(&text, "\n", heading, "\n");
    for (const std::string& member : members) absl::StrAppend(&text, "  ", member, "\n");
  }
  return text;
}

Contract ParseContract(std::string_view text) {
  Contract contract;
  std::vector<std::string>* members = nullptr;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    if (line.starts_with("  ") && members != nullptr) {
      members->emplace_back(line.substr(2));
    } else {
      members = &contract[std::string(line)];
    }
  }
  return contract;
}

ContractDifferences CompareContracts(const Contract& released, const Contract& current) {
  ContractDifferences differences;
  for (const auto& [heading, members] : released) {
    const auto found = current.find(heading);
    if (found == current.end()) {
      differences.broken.push_back(absl::StrCat(heading, " is gone"));
    } else {
      CompareMembers(heading, members, found->second, differences);
    }
  }
  for (const auto& [heading, members] : current) {
    if (!released.contains(heading)) differences.unlisted.push_back(absl::StrCat(heading, " is new"));
  }
  return differences;
}

}  // namespace rdmabroker
