// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/background_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "broker/runtime/loop_for_test.h"

namespace rdmabroker {
namespace {

using testing::ElementsAre;

// A file that can be read once the test says what is in it.
class SlowFile {
 public:
  void Write(int value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(value);
    changed_.notify_all();
  }
  int Read() {
    std::unique_lock lock(mutex_);
    ++begun_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !values_.empty(); });
    const int value = values_.front();
    values_.erase(values_.begin());
    return value;
  }
  void AwaitReader(int number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= number; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> values_;
  int begun_ = 0;
};

class BackgroundReadTest : public testing::Test {
 protected:
  BackgroundReadTest() { Make(); }

  void Make() {
    reader_ = std::make_unique<BackgroundRead<int>>(
        loop_, [file = file_] { return file->Read(); }, [this](int value) { seen_.push_back(value); });
  }

  const std::shared_ptr<SlowFile> file_ = std::make_shared<SlowFile>();
  Loop loop_;
  std::vector<int> seen_;
  std::unique_ptr<BackgroundRead<int>> reader_;
};

TEST_F(BackgroundReadTest, AReadThatIsAskedForMeanwhileBeginsAfterwardsOnceForAll) {
  EXPECT_TRUE(reader_->Ask());
  file_->AwaitReader(1);
  EXPECT_FALSE(reader_->Ask());
  EXPECT_FALSE(reader_->Ask());
  file_->Write(1);
  EXPECT_TRUE(RunUntil(loop_, [&] { return seen_.size() == 1; }));
  file_->AwaitReader(2);
  file_->Write(2);
  EXPECT_TRUE(RunUntil(loop_, [&] { return seen_.size() == 2; }));
  EXPECT_THAT(seen_, ElementsAre(1, 2));
  EXPECT_TRUE(reader_->Ask()) << "no third one is under way";
  file_->Write(3);
  EXPECT_TRUE(RunUntil(loop_, [&] { return seen_.size() == 3; }));
}

TEST_F(BackgroundReadTest, AReadThatHangsHoldsNobodyUp) {
  EXPECT_TRUE(reader_->Ask());
  file_->AwaitReader(1);
  reader_.reset();
  Make();
  EXPECT_TRUE(reader_->Ask());
  file_->AwaitReader(2);
  file_->Write(1);
  file_->Write(2);
  EXPECT_TRUE(RunUntil(loop_, [&] { return !seen_.empty(); }));
  EXPECT_EQ(seen_.size(), 1u) << "nobody is told what a reader has read that is gone";
}

}  // namespace
}  // namespace rdmabroker
