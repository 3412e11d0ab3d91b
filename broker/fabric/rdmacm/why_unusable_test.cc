// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/device_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"

namespace rdmabroker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;

// Each names the cause and what to do; of several that hold, the first that is to be mended.
TEST(WhyUnusable, NamesTheFirstCauseAndWhatToDo) {
  const absl::Status missing = absl::NotFoundError("PATH: No such file or directory");
  const absl::Status forbidden = absl::PermissionDeniedError("PATH: Permission denied");
  const absl::Status short_of_files = absl::ResourceExhaustedError("PATH: Too many open files");
  struct Row {
    const char* name;
    absl::Status connection_manager;
    bool port_active;
    bool has_addresses;
    Matcher<std::string> reason;
  };
  const Matcher<std::string> load = AllOf(HasSubstr("connection manager is not loaded"), HasSubstr("modprobe"));
  const Matcher<std::string> allow = AllOf(HasSubstr("PATH: Permission denied"), HasSubstr("read and write"));
  const Matcher<std::string> wait = AllOf(HasSubstr("PATH: Too many open files"), HasSubstr("tries again"));
  const Matcher<std::string> raise = AllOf(HasSubstr("port is down"), HasSubstr("ip link set INTERFACE up"));
  const Matcher<std::string> name = AllOf(HasSubstr("no IP address"), HasSubstr("ip address add"));
  for (const Row& row : {
           Row{"all is well", {}, true, true, IsEmpty()},
           Row{"no module", missing, true, true, load},
           Row{"no module, and all else", missing, false, false, load},
           Row{"no right", forbidden, true, true, allow},
           Row{"no right, and all else", forbidden, false, false, allow},
           Row{"no descriptor", short_of_files, true, true, wait},
           Row{"no descriptor, and all else", short_of_files, false, false, wait},
           Row{"no link", {}, false, true, raise},
           Row{"no link and no address", {}, false, false, raise},
           Row{"no address", {}, true, false, name},
       }) {
    EXPECT_THAT(WhyUnusable(row.connection_manager, row.port_active, row.has_addresses), row.reason) << row.name;
  }
}

}  // namespace
}  // namespace rdmabroker
