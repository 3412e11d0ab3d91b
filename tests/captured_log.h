// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CAPTURED_LOG_H_
#define TESTS_CAPTURED_LOG_H_

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace rdmabroker {

// Keeps what is logged while it lives. Made before the threads that log, and gone after them: the logger's list of
// sinks has no lock.
class CapturedLog {
 public:
  CapturedLog() { spdlog::default_logger()->sinks().push_back(sink_); }
  ~CapturedLog() { spdlog::default_logger()->sinks().pop_back(); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::vector<std::string> LinesWith(const std::string& text) { return sink_->LinesWith(text); }

 private:
  class Sink final : public spdlog::sinks::base_sink<std::mutex> {
   public:
    std::vector<std::string> LinesWith(const std::string& text) {
      const std::lock_guard lock(lines_mutex_);
      std::vector<std::string> found;
      for (const std::string& line : lines_) {
        if (line.find(text) != std::string::npos) found.push_back(line);
      }
      return found;
    }

   protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
      const std::lock_guard lock(lines_mutex_);
      lines_.emplace_back(message.payload.data(), message.payload.size());
    }
    void flush_() override {}

   private:
    // The base's own is taken where ThreadSanitizer does not look, in spdlog's library.
    std::mutex lines_mutex_;
    std::vector<std::string> lines_;  // Guarded by lines_mutex_.
  };

  std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
};

}  // namespace rdmabroker

#endif  // TESTS_CAPTURED_LOG_H_
