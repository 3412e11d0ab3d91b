// SPDX-License-Identifier: Apache-2.0

// Whether functions.h lists what the headers of the API have, and nothing else, and callbacks.h what they call back.

#include "tests/conformance/misuse/functions.h"

#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/misuse/callbacks.h"

namespace rdmabroker::misuse {
namespace {

struct Header {
  const char* file;
  std::vector<std::string> classes;  // Those of its classes that a program calls, or of its structs that it fills in.
};

const Header kHeaders[] = {
    {"client/session.h", {"Session"}},
    {"client/broker_object.h", {"BrokerObject"}},
    {"client/adapter.h", {"Adapter"}},
    {"client/listener.h", {"Listener"}},
    {"client/address_holder.h", {"AddressHolder"}},
    {"client/shared_endpoint.h", {"SharedEndpoint"}},
    {"client/reservation.h", {"Reservation"}},
    {"client/connector.h", {"Connector"}},
    {"client/blocking.h", {"BlockingListener"}},
    {"dataplane/ndk/extension.h", {"Extensible"}},
    {"dataplane/data_object.h", {"DataObject"}},
    {"dataplane/adapter.h", {"ProtectionDomain", "Adapter"}},
    {"dataplane/completion_queue.h", {"CompletionQueue"}},
    {"dataplane/shared_receive_queue.h", {"SharedReceiveQueue"}},
    {"dataplane/memory.h", {"MemoryRegion", "MemoryWindow"}},
    {"dataplane/queue_pair.h", {"QueuePair"}},
};

// With callbacks among them.
const Header kOptions[] = {
    {"client/session_options.h", {"SessionOptions"}},
    {"client/data_path.h", {"DataPath"}},
    {"dataplane/adapter.h", {"QueuePairAttributes", "SharedReceiveQueueAttributes"}},
};

// Without comments.
std::string TextOf(const std::string& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in) << file;
  std::string text, line;
  while (std::getline(in, line)) text += line.substr(0, line.find("//")) + "\n";
  return text;
}

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The names that are declared as functions in the text: those before parentheses and after a type. Bodies are in braces
// and have been cut out.
std::set<std::string> Declared(const std::string& text) {
  std::set<std::string> names;
  for (size_t end = text.find('('); end != std::string::npos; end = text.find('(', end + 1)) {
    size_t begin = end;
    while (begin > 0 && IsWord(text[begin - 1])) --begin;
    size_t type = begin;
    while (type > 0 && std::isspace(static_cast<unsigned char>(text[type - 1])) != 0) --type;
    if (begin == end || type == 0) continue;
    const char last = text[type - 1];
    const bool pointer = last == '*' || last == '&';
    if (pointer || (type < begin && (IsWord(last) || last == '>'))) names.insert(text.substr(begin, end - begin));
  }
  return names;
}

// The public part of a class or struct, without the bodies of its functions.
std::string PublicPart(const std::string& text, const std::string& name) {
  size_t begin = text.find("\nclass " + name + " ");
  bool is_public = begin == std::string::npos;
  if (is_public) begin = text.find("\nstruct " + name + " ");
  EXPECT_NE(begin, std::string::npos) << name;
  std::string part;
  int depth = 0;
  for (size_t i = text.find('{', begin); i < text.size(); ++i) {
    if (text[i] == '}' && --depth == 0) break;
    if (depth == 1) {
      for (const auto& [label, shows] : {std::pair("public:", true), {"protected:", false}, {"private:", false}}) {
        if (text.compare(i, std::string(label).size(), label) == 0) is_public = shows;
      }
      if (is_public) part += text[i] == '{' ? ';' : text[i];
    }
    if (text[i] == '{') ++depth;
  }
  return part;
}

// As functions.h and callbacks.h have it.
std::string PrefixOf(const Header& header, const std::string& name) {
  const bool is_data = std::string(header.file).rfind("dataplane/", 0) == 0;
  return (is_data && name == "Adapter" ? "DataAdapter" : name) + ".";
}

// What the headers have, by the names of functions.h without those of overloads' parameters.
std::set<std::string> InHeaders() {
  std::set<std::string> all;
  for (const Header& header : kHeaders) {
    const std::string text = TextOf(header.file);
    for (const std::string& name : header.classes) {
      const std::string prefix = PrefixOf(header, name);
      for (const std::string& function : Declared(PublicPart(text, name))) {
        if (function != name) all.insert(prefix + function);
      }
    }
  }
  for (const std::string& function : Declared(TextOf("client/blocking.h"))) {
    if (function.rfind("Blocking", 0) == 0 && function != "BlockingListener") all.insert(function);
  }
  for (const std::string& function : Declared(TextOf("dataplane/callback_thread.h"))) all.insert(function);
  return all;
}

std::set<std::string> Listed() {
  std::set<std::string> all;
  for (const Function& function : kFunctions) {
    const std::string name = function.name;
    all.insert(name.substr(0, name.find('(')));
  }
  return all;
}

// Whether the text ends with the type of a callback.
bool EndsWithCallback(std::string_view text) {
  if (text.ends_with(")>")) return true;
  if (text.ends_with(">")) text = text.substr(0, text.rfind('<'));
  return text.ends_with("Completion") || text.ends_with("Callback") || text.ends_with("Notification");
}

// The parameters and fields of such types in the text: "Connect completion", "on_end".
std::set<std::string> CallbacksIn(const std::string& text) {
  std::set<std::string> names;
  std::string function;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    for (end = begin; end < text.size() && IsWord(text[end]);) ++end;
    const std::string word = text.substr(begin, end - begin);
    const bool takes = !word.empty() && begin > 0 && text[begin - 1] == ' ';
    if (takes && EndsWithCallback(std::string_view(text).substr(0, begin - 1))) names.insert(function + word);
    // A function type's result is none.
    if (takes && text[end] == '(') function = word + " ";
    if (word.empty() && text[end++] == ';') function.clear();
  }
  return names;
}

void AddCallbacks(const Header& header, std::set<std::string>& all) {
  for (const std::string& name : header.classes) {
    for (const std::string& callback : CallbacksIn(PublicPart(TextOf(header.file), name))) {
      all.insert(PrefixOf(header, name) + callback);
    }
  }
}

TEST(FunctionsTest, TheListHasWhatTheHeadersHave) { EXPECT_EQ(Listed(), InHeaders()); }

// Two kinds of callbacks have no row: blocking.h's functions pass some on, and others need a network whose addresses
// change (tests/integration/moving_address_test.cc).
TEST(FunctionsTest, EachCallbackOfTheHeadersHasARow) {
  std::set<std::string> in_headers,
      listed = {"Adapter.CreateListener on_address", "AddressHolder.OnAddressEvent on_address"};
  for (const Header& header : kHeaders) AddCallbacks(header, in_headers);
  for (const Header& header : kOptions) AddCallbacks(header, in_headers);
  for (const CallbackRow& row : CallbackRows()) listed.insert(row.callback);
  EXPECT_EQ(listed, in_headers);
}

TEST(FunctionsTest, NoFunctionIsListedTwice) {
  std::set<std::string> names;
  for (const Function& function : kFunctions) EXPECT_TRUE(names.insert(function.name).second) << function.name;
}

TEST(FunctionsTest, WhatWasNeverCalledOrAcceptedIsMissing) {
  Tally tally;
  for (const Function& function : kFunctions) {
    tally.Returned(IndexOf(function.name), NdkStatus::kSuccess);
    if (!function.has_status) tally.Reached(IndexOf(function.name));
  }
  EXPECT_EQ(tally.Missing("none").size(), 0u);
  EXPECT_EQ(tally.AcceptedShare(), 1);
  EXPECT_EQ(tally.Missing("siw").size(), 11u) << "called or accepted where they are listed as never so";
  EXPECT_EQ(Tally().Missing("fake").size(), kFunctionCount);
  Tally refused;
  for (const Function& function : kFunctions) refused.Returned(IndexOf(function.name), NdkStatus::kInvalidParameter);
  EXPECT_EQ(refused.AcceptedShare(), 0);
  EXPECT_GT(refused.Missing("fake").size(), 0u);
}

}  // namespace
}  // namespace rdmabroker::misuse
