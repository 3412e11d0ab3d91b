// SPDX-License-Identifier: Apache-2.0

#include "broker/control/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rdmabroker {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

absl::StatusOr<Configuration> Parse(const std::string& text) {
  Accounts accounts;
  return ParseConfiguration(text, "broker.toml", accounts);
}

struct GoodRow {
  const char* key;  // "section.key".
  const char* value;
  std::function<void(Configuration&)> set;
};

const std::vector<GoodRow>& GoodRows() {
  static const std::vector<GoodRow> kRows = {
      {"control.socket_directory", "\"/run/x\"", [](auto& c) { c.socket_directory = "/run/x"; }},
      {"control.state_directory", "\"/run/y\"", [](auto& c) { c.state_directory = "/run/y"; }},
      {"control.socket_mode", "0o600", [](auto& c) { c.socket_mode = 0600; }},
      {"control.socket_group", "\"g\"", [](auto& c) { c.socket_group = "g"; }},
      {"control.administrators_group", "\"adm\"", [](auto& c) { c.administrators_group = "adm"; }},
      {"control.root_administers", "false", [](auto& c) { c.root_administers = false; }},
      {"control.connections_per_uid", "7", [](auto& c) { c.connections_per_uid = 7; }},
      {"control.patience_ms", "1500", [](auto& c) { c.patience = absl::Milliseconds(1500); }},
      {"iwarp.crc", "false", [](auto& c) { c.iwarp_crc = false; }},
      {"rdmacm.trust_qp_numbers", "true", [](auto& c) { c.trust_qp_numbers = true; }},
      {"log.level", "\"debug\"", [](auto& c) { c.log_level = "debug"; }},
      {"log.format", "\"json\"", [](auto& c) { c.log_format = "json"; }},
      {"metrics.address", "\"[::1]:9464\"", [](auto& c) { c.metrics_address = "[::1]:9464"; }},
      {"limits.sessions_per_uid", "2", [](auto& c) { c.limits.sessions_per_uid = 2; }},
      {"limits.endpoints_per_uid", "20", [](auto& c) { c.limits.endpoints_per_uid = 20; }},
      {"limits.objects_per_uid", "30", [](auto& c) { c.limits.objects_per_uid = 30; }},
      {"limits.kept_bytes_per_uid", "4294967296", [](auto& c) { c.limits.kept_bytes_per_uid = uint64_t{1} << 32; }},
      {"limits.accept_on_closing_listener", "false", [](auto& c) { c.limits.accept_on_closing_listener = false; }},
      {"limits.adapters_per_session", "3", [](auto& c) { c.limits.adapters_per_session = 3; }},
      {"limits.listeners_per_session", "4", [](auto& c) { c.limits.listeners_per_session = 4; }},
      {"limits.shared_endpoints_per_session", "5", [](auto& c) { c.limits.shared_endpoints_per_session = 5; }},
      {"limits.reservations_per_session", "6", [](auto& c) { c.limits.reservations_per_session = 6; }},
      {"limits.connectors_per_session", "8", [](auto& c) { c.limits.connectors_per_session = 8; }},
      {"limits.answers_kept", "9", [](auto& c) { c.limits.answers_kept = 9; }},
      {"limits.events_kept", "16", [](auto& c) { c.limits.events_kept = 16; }},
      {"limits.backlog", "10", [](auto& c) { c.limits.backlog = 10; }},
      {"limits.first_unprivileged_port", "80", [](auto& c) { c.limits.first_unprivileged_port = 80; }},
      {"limits.first_ephemeral_port", "50000", [](auto& c) { c.limits.first_ephemeral_port = 50000; }},
      {"limits.last_ephemeral_port", "60000", [](auto& c) { c.limits.last_ephemeral_port = 60000; }},
      {"timeouts.connect_ms", "11", [](auto& c) { c.limits.connect_timeout = absl::Milliseconds(11); }},
      {"timeouts.establish_ms", "12", [](auto& c) { c.limits.establish_timeout = absl::Milliseconds(12); }},
      {"timeouts.disconnect_ms", "13", [](auto& c) { c.limits.disconnect_timeout = absl::Milliseconds(13); }},
      {"timeouts.handoff_ms", "14", [](auto& c) { c.limits.handoff_timeout = absl::Milliseconds(14); }},
      {"timeouts.session_grace_ms", "3600000", [](auto& c) { c.limits.session_grace = absl::Hours(1); }},
      // Alone it is refused.
      {"tcp.address", "\"[::1]:7\"\ncertificate = \"/c\"\nprivate_key = \"/k\"\nclient_authorities = \"/a\"",
       [](auto& c) {
         c.tcp_address = "[::1]:7";
         c.tcp_certificate = "/c";
         c.tcp_private_key = "/k";
         c.tcp_client_authorities = "/a";
       }},
      {"tcp.certificate", "\"/c\"", [](auto& c) { c.tcp_certificate = "/c"; }},
      {"tcp.private_key", "\"/k\"", [](auto& c) { c.tcp_private_key = "/k"; }},
      {"tcp.client_authorities", "\"/a\"", [](auto& c) { c.tcp_client_authorities = "/a"; }},
      {"tcp.revoked", "\"/r\"", [](auto& c) { c.tcp_revoked = "/r"; }},
      {"tcp.administrators", "[\"spiffe://a/b\", \"spiffe://a/c\"]",
       [](auto& c) {
         c.tcp_administrators = {"spiffe://a/b", "spiffe://a/c"};
       }},
      {"tcp.inspectors", "[\"spiffe://a/b\"]", [](auto& c) { c.tcp_inspectors = {"spiffe://a/b"}; }},
  };
  return kRows;
}

std::string TextOf(const std::string& key, const std::string& value) {
  const std::vector<std::string> parts = absl::StrSplit(key, '.');
  return absl::StrCat("# a comment\n[", parts[0], "]\n", parts[1], " = ", value, "\n");
}

TEST(Configuration, EveryKeySetsItsOwnFieldOnly) {
  for (const GoodRow& row : GoodRows()) {
    Configuration expected;
    row.set(expected);
    const auto parsed = Parse(TextOf(row.key, row.value));
    ASSERT_TRUE(parsed.ok()) << row.key << ": " << parsed.status();
    EXPECT_EQ(*parsed, expected) << row.key;
    EXPECT_NE(*parsed, Configuration()) << row.key;
  }
}

TEST(Configuration, EveryKeyRefusesAValueOfAnotherType) {
  for (const GoodRow& row : GoodRows()) {
    for (const char* value : {"[1]", "1.5", "2020-01-01", row.value[0] == '"' || row.value[0] == '[' ? "1" : "\"1\""}) {
      const auto parsed = Parse(TextOf(row.key, value));
      EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << row.key << " = " << value;
      EXPECT_THAT(std::string(parsed.status().message()),
                  StartsWith(absl::StrCat("broker.toml:3: ", row.key, ": must be a ")));
    }
  }
}

struct BadRow {
  const char* text;
  const char* complaint;
};

TEST(Configuration, BadTextIsRefusedWithFileLineAndKey) {
  const BadRow rows[] = {
      {"[control]\nsocket = 1\n", "broker.toml:2: control.socket: unknown key; known are "},
      {"\n[contrl]\n", "broker.toml:2: contrl: unknown key; known are the tables "},
      {"control = 5\n", "broker.toml:1: control: unknown key"},
      {"[control.inner]\nx = 1\n", "broker.toml:1: control.inner: unknown key"},
      {"[control]\nsocket_directory = \"run\"\n", "broker.toml:2: control.socket_directory: must be an absolute path"},
      {"[control]\nsocket_directory = \"\"\n", "broker.toml:2: control.socket_directory: must be an absolute path"},
      {"[control]\nstate_directory = \"run\"\n", "broker.toml:2: control.state_directory: must be an absolute path"},
      {"[control]\nsocket_mode = 0o1777\n", "broker.toml:2: control.socket_mode: 1023 is not from 0 to 511"},
      {"[control]\nsocket_mode = -1\n", "broker.toml:2: control.socket_mode: -1 is not from 0 to 511"},
      {"[control]\nconnections_per_uid = 0\n", "broker.toml:2: control.connections_per_uid: 0 is not from 1 to "},
      {"[control]\npatience_ms = 3600001\n", "broker.toml:2: control.patience_ms: 3600001 is not from 1 to 3600000"},
      {"[control]\npatience_ms = 9223372036854775807\n", "broker.toml:2: control.patience_ms: 9223372036854775807 is"},
      {"[log]\nlevel = \"loud\"\n", "broker.toml:2: log.level: must be one of trace, debug, info, warning, error"},
      {"[log]\nformat = \"JSON\"\n", "broker.toml:2: log.format: must be one of text, json"},
      {"[metrics]\naddress = \"localhost:9464\"\n",
       "broker.toml:2: metrics.address: must be IP:PORT, an IPv6 address in "},
      {"[metrics]\naddress = \"127.0.0.1\"\n", "broker.toml:2: metrics.address: must be IP:PORT"},
      {"[metrics]\naddress = \"::1:9464\"\n", "broker.toml:2: metrics.address: must be IP:PORT"},
      {"[metrics]\naddress = \"[fe80::1%nobodys0]:9464\"\n",
       "broker.toml:2: metrics.address: must be IP:PORT, an IPv6 address in brackets, or \"\"; "
       "\"[fe80::1%nobodys0]:9464\": "
       "no interface \"nobodys0\""},
      {"[metrics]\naddress = \"127.0.0.1:65536\"\n", "broker.toml:2: metrics.address: must be IP:PORT"},
      {"[limits]\nanswers_kept = 4097\n", "broker.toml:2: limits.answers_kept: 4097 is not from 1 to 4096"},
      {"[limits]\nevents_kept = 15\n", "broker.toml:2: limits.events_kept: 15 is not from 16 to "},
      {"[limits]\nlast_ephemeral_port = 65536\n", "broker.toml:2: limits.last_ephemeral_port: 65536 is not from 1 to"},
      {"[limits]\n\nfirst_ephemeral_port = 60000\nlast_ephemeral_port = 50000\n",
       "broker.toml:3: limits.first_ephemeral_port: 60000 is above limits.last_ephemeral_port, 50000"},
      {"[limits]\nlast_ephemeral_port = 1000\n",
       "broker.toml:2: limits.first_ephemeral_port: 49152 is above limits.last_ephemeral_port, 1000"},
      {"[tcp]\naddress = \"localhost:1\"\n", "broker.toml:2: tcp.address: must be IP:PORT"},
      {"[tcp]\naddress = \"127.0.0.1\"\n", "broker.toml:2: tcp.address: must be IP:PORT"},
      {"[tcp]\naddress = \"127.0.0.1:65536\"\n", "broker.toml:2: tcp.address: must be IP:PORT"},
      {"[tcp]\ncertificate = \"c.pem\"\n", "broker.toml:2: tcp.certificate: must be an absolute path"},
      {"[tcp]\nrevoked = \"r.pem\"\n", "broker.toml:2: tcp.revoked: must be an absolute path"},
      {"[tcp]\naddress = \"127.0.0.1:1\"\n", "broker.toml:2: tcp.certificate: missing; tcp.address needs it"},
      {"[tcp]\ncertificate = \"/c\"\naddress = \"127.0.0.1:1\"\n", "broker.toml:3: tcp.private_key: missing"},
      {"[tcp]\ncertificate = \"/c\"\nprivate_key = \"/k\"\naddress = \"127.0.0.1:1\"\n",
       "broker.toml:4: tcp.client_authorities: missing"},
      {"[tcp]\ninspectors = [\"spiffe://a/b\",\n\"me\"]\n",
       "broker.toml:3: tcp.inspectors: must be SPIFFE ids; \"me\""},
      {"[tcp]\nadministrators = [\"spiffe://a/b\",\n1]\n", "broker.toml:3: tcp.administrators: must be a list of"},
      {"[control]\nsocket_mode = \n", "broker.toml:2: not TOML: "},
      {"[control]\npatience_ms = 1\npatience_ms = 2\n", "broker.toml:3: not TOML: "},
      {"\n\nnot toml at all\n", "broker.toml:3: not TOML: "},
      {"[!]\n", "broker.toml:1: not TOML: "},
  };
  for (const BadRow& row : rows) {
    const auto parsed = Parse(row.text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << row.text;
    EXPECT_THAT(std::string(parsed.status().message()), StartsWith(row.complaint)) << row.text;
  }
}

TEST(Configuration, NothingAtAllIsTheDefaults) {
  EXPECT_EQ(*Parse(""), Configuration());
  EXPECT_EQ(*Parse("# a comment\n[control]\n[log]\n"), Configuration());
}

// A row of the table in docs/configuration.md.
struct DocumentedKey {
  std::string default_value;
  std::string range;
  std::string reload;
};

std::map<std::string, DocumentedKey> DocumentedKeys() {
  std::ifstream file("docs/configuration.md");
  EXPECT_TRUE(file.is_open());
  std::map<std::string, DocumentedKey> keys;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    if (cells.size() < 5 || cells[0].find("| `") != 0) continue;
    const std::string key = cells[0].substr(3, cells[0].size() - 4);
    EXPECT_TRUE(keys.emplace(key, DocumentedKey{cells[1].substr(1, cells[1].size() - 2), cells[2], cells[3]}).second)
        << key;
  }
  return keys;
}

std::set<std::string> KnownKeys() {
  std::set<std::string> keys;
  for (const auto& [key, _] : KnownConfigurationKeys()) keys.insert(key);
  return keys;
}

TEST(Configuration, IsDocumentedKeyByKey) {
  std::set<std::string> documented;
  for (const auto& [key, row] : DocumentedKeys()) documented.insert(key);
  EXPECT_EQ(documented, KnownKeys());
  std::set<std::string> tested;
  for (const GoodRow& row : GoodRows()) tested.insert(row.key);
  EXPECT_EQ(documented, tested);
}

// The first cell of each row below the heading "Limits of the configuration".
std::string DocumentedLimits() {
  std::ifstream file("docs/limits.md");
  EXPECT_TRUE(file.is_open());
  std::string cells;
  bool below = false;
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "## ")) below = line == "## Limits of the configuration";
    if (below && absl::StartsWith(line, "| ")) absl::StrAppend(&cells, line.substr(0, line.find(" | ")), "\n");
  }
  return cells;
}

TEST(Configuration, EachLimitIsOnThePageThatSaysWhatHappensThere) {
  const std::string limits = DocumentedLimits();
  for (const std::string& key : KnownKeys()) {
    const bool bounds = absl::StartsWith(key, "limits.") || absl::StartsWith(key, "timeouts.") ||
                        key == "control.connections_per_uid" || key == "control.patience_ms";
    if (bounds) {
      EXPECT_THAT(limits, HasSubstr(absl::StrCat("`", key, "`")));
    }
  }
}

TEST(Configuration, ChangesInAProcessAsDocumented) {
  for (const auto& [key, may_change] : KnownConfigurationKeys()) {
    EXPECT_EQ(DocumentedKeys().at(key).reload, may_change ? "yes" : "no") << key;
  }
}

TEST(Configuration, EveryKeyThatMayChangeIsAppliedAndNoOther) {
  const std::map<std::string, bool> known = KnownConfigurationKeys();
  for (const GoodRow& row : GoodRows()) {
    if (std::string(row.key) == "tcp.address") continue;  // Comes with others.
    Configuration wanted;
    row.set(wanted);
    Configuration in_use;
    const ChangedKeys changed = ApplyChanges(wanted, in_use);
    const std::vector<std::string> itself = {row.key};
    EXPECT_EQ(known.at(row.key) ? changed.applied : changed.needs_restart, itself);
    EXPECT_EQ(changed.applied.size() + changed.needs_restart.size(), 1u);
    EXPECT_EQ(in_use, known.at(row.key) ? wanted : Configuration()) << row.key;
    Configuration same = wanted;
    EXPECT_EQ(ApplyChanges(wanted, same), ChangedKeys()) << row.key;
  }
}

TEST(Configuration, HasTheDocumentedDefaults) {
  for (const auto& [key, row] : DocumentedKeys()) {
    const auto parsed = Parse(TextOf(key, row.default_value));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, Configuration()) << key << " = " << row.default_value;
  }
}

TEST(Configuration, HasTheDocumentedRanges) {
  size_t numbers = 0;
  for (const auto& [key, row] : DocumentedKeys()) {
    const std::vector<std::string> ends = absl::StrSplit(row.range, " to ");
    int64_t least = 0;
    int64_t most = 0;
    if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &least) || !absl::SimpleAtoi(ends[1], &most)) continue;
    ++numbers;
    for (const int64_t outside : {least - 1, most + 1}) {
      EXPECT_THAT(std::string(Parse(TextOf(key, absl::StrCat(outside))).status().message()),
                  HasSubstr(absl::StrCat(key, ": ", outside, " is not from ", least, " to ", most)));
    }
    for (const int64_t inside : {least, most}) {
      const absl::Status status = Parse(TextOf(key, absl::StrCat(inside))).status();
      // The two ephemeral ports are held against each other besides.
      EXPECT_TRUE(status.ok() || status.message().find("is above") != std::string::npos) << status;
    }
  }
  EXPECT_EQ(numbers, 23u);
  const std::vector<std::string> levels = absl::StrSplit(DocumentedKeys().at("log.level").range, ", ");
  for (const std::string& level : levels) {
    EXPECT_TRUE(Parse(TextOf("log.level", absl::StrCat("\"", level, "\""))).ok()) << level;
  }
  const std::vector<std::string> formats = absl::StrSplit(DocumentedKeys().at("log.format").range, ", ");
  for (const std::string& format : formats) {
    EXPECT_TRUE(Parse(TextOf("log.format", absl::StrCat("\"", format, "\""))).ok()) << format;
  }
}

// The file that packages install, as it is and with the "#" taken away from each key, which has text behind it at once.
std::string DefaultFile(bool uncommented) {
  std::ifstream file("deploy/configuration/rdma-brokerd.toml");
  EXPECT_TRUE(file.is_open());
  std::string text;
  for (std::string line; std::getline(file, line);) {
    const bool is_key = line.size() > 1 && line[0] == '#' && line[1] != ' ';
    absl::StrAppend(&text, is_key && uncommented ? line.substr(1) : line, "\n");
  }
  return text;
}

TEST(DefaultFile, ChangesNothing) {
  const auto parsed = Parse(DefaultFile(false));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, Configuration());
}

TEST(DefaultFile, HasEveryKeyWithItsDefault) {
  const std::string text = DefaultFile(true);
  const auto parsed = Parse(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << text;
  EXPECT_EQ(*parsed, Configuration());
  std::set<std::string> keys;
  std::string section;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (const std::string& line : lines) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      section = line.substr(1, line.size() - 2);
    } else {
      keys.insert(absl::StrCat(section, ".", line.substr(0, line.find(' '))));
    }
  }
  EXPECT_EQ(keys, KnownKeys());
}

class ConfigurationFile : public testing::Test {
 protected:
  std::string Write(const std::string& text) {
    std::string path = testing::TempDir() + "/broker.toml";
    std::ofstream(path) << text;
    return path;
  }
  absl::StatusOr<Configuration> Read(const std::string& path) {
    const absl::StatusOr<std::string> text = ReadConfigurationText(path);
    Accounts accounts;
    return text.ok() ? ParseConfiguration(*text, path, accounts) : text.status();
  }
};

TEST_F(ConfigurationFile, IsNamedInComplaints) {
  const std::string path = Write("[log]\nlevel = 3\n");
  EXPECT_THAT(std::string(Read(path).status().message()), StartsWith(path + ":2: log.level: "));
}

TEST_F(ConfigurationFile, MayBeEmpty) {
  const auto read = Read(Write(""));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, Configuration());
}

TEST_F(ConfigurationFile, ThatCannotBeReadIsNotFound) {
  // To open a pipe into which nobody writes would take for ever.
  const std::string pipe = testing::TempDir() + "/pipe";
  ASSERT_TRUE(::mkfifo(pipe.c_str(), 0600) == 0 || errno == EEXIST);
  for (const std::string& path : {testing::TempDir() + "/no such file", testing::TempDir(), pipe}) {
    const absl::Status status = Read(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << path;
    EXPECT_THAT(std::string(status.message()), StartsWith(path + ": cannot be read: "));
    EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("Success"))) << path;
  }
}

}  // namespace
}  // namespace rdmabroker
