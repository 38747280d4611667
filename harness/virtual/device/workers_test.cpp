// A backward has ended when autograd's workers rest. A thread of this engine's is like theirs.
#include "harness/virtual/device/workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace torch::autograd {

/// Lets go of what a node has used only a while after the caller has been told of its end.
class Engine {
 public:
  void loop() {
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait(lock, [this] { return nodes_ > 0 || ended_; });
      if (ended_) return;
      --nodes_;
      caller_continues_ = true;
      changed_.notify_all();
      lock.unlock();
      std::this_thread::sleep_for(lets_go_after);
      let_go = true;
      lock.lock();
    }
  }
  void run() {
    std::unique_lock lock(mutex_);
    ++nodes_;
    caller_continues_ = let_go = false;
    changed_.notify_all();
    changed_.wait(lock, [this] { return caller_continues_; });
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  std::chrono::milliseconds lets_go_after{30};
  std::atomic<bool> let_go{false};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int nodes_ = 0;
  bool caller_continues_ = false, ended_ = false;
};

}  // namespace torch::autograd

namespace tidemark::device {
namespace {

using torch::autograd::Engine;
using Clock = std::chrono::steady_clock;

class Workers : public ::testing::Test {
 protected:
  ~Workers() override {
    engine_.end();
    thread_.join();
  }
  Engine engine_;
  std::thread thread_{&Engine::loop, &engine_};
};

TEST_F(Workers, HaveLetGoWhenABackwardEnds) {
  auto shortest = Clock::duration::max();
  for (int step = 0; step < 5; ++step) {  // the first finds a worker that has not waited yet
    engine_.run();
    const auto begin = Clock::now();
    tidemark_device_backward_ends();
    shortest = std::min(shortest, Clock::now() - begin);
    EXPECT_TRUE(engine_.let_go) << "step " << step;
  }
  EXPECT_LT(shortest, std::chrono::milliseconds(100)) << "it goes on when the worker rests";
}

TEST_F(Workers, AreNotWaitedForWithoutEnd) {
  engine_.lets_go_after = std::chrono::milliseconds(400);
  engine_.run();
  const auto begin = Clock::now();
  tidemark_device_backward_ends();
  EXPECT_FALSE(engine_.let_go) << "it may run a backward of another thread";
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(100));
}

}  // namespace
}  // namespace tidemark::device
