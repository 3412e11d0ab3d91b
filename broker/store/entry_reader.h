// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_STORE_ENTRY_READER_H_
#define BROKER_STORE_ENTRY_READER_H_

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace rdmabroker::store {

// Gives `take` each key and value of LMDB's file at `path`, in the order of the keys, until it returns an error, which
// is then the result. NOT_FOUND where there is no file; DATA_LOSS where it is no file of LMDB's, or a damaged one;
// INTERNAL where the system is to blame, which lacks descriptors or has ended the child, and the file may be sound.
// Errors name the file. Changes nothing.
//
// LMDB trusts its pages: where one is damaged it may read beyond the file, fail an assertion or go round in circles. So
// a child process reads, which may die of it, and sends what it finds, to be believed no more than the file itself. To
// check the pages before would be to write LMDB a second time. As it forks, call it before there are other threads.
absl::Status ReadEntries(const std::string& path,
                         absl::FunctionRef<absl::Status(std::string_view key, std::string_view value)> take);

}  // namespace rdmabroker::store

#endif  // BROKER_STORE_ENTRY_READER_H_
