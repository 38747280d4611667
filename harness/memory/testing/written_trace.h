// A snapshot of any program, written event by event, for tests of what its stacks say.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/memory/snapshot.h"

namespace tidemark {

/// A trace, written event by event; addresses are in MiB, and sizes.
class Trace {
 public:
  static std::string frame(const std::string& file, int line, const std::string& function) {
    return fmt::format(R"({{"filename":"{}","line":{},"name":"{}"}})", file, line, function);
  }
  static std::string stack(const std::vector<std::string>& frames) {
    return fmt::format("[{}]", fmt::join(frames, ","));
  }

  Trace& add(const std::string& action, int address, int size, const std::string& stack) {
    const bool oom = action == "oom";
    events_.push_back(fmt::format(
        R"({{"action":"{}","{}":{},"size":{},"stream":0,"frames":{},"time_us":{},"user_metadata":"{}"}})",
        action, oom ? "device_free" : "addr", std::int64_t{address} << 20, std::int64_t{size} << 20,
        stack, events_.size(), said_));
    return *this;
  }
  /// What the thread's metadata are from here on.
  Trace& says(const std::string& metadata) {
    said_ = metadata;
    return *this;
  }
  /// A range that the program names, around what comes until `ends`.
  Trace& begins(const std::string& name) { return range("START", name, 0); }
  Trace& ends(const std::string& name) { return range("END", name, -1); }
  /// A block that is freed and given back at once.
  Trace& freed(int address, int size, const std::string& stack) {
    return add("free_requested", address, size, stack).add("free_completed", address, size, stack);
  }
  /// `segment`: MiB from address 0 on, and the blocks at the end: (size, allocated).
  Snapshot snapshot(int segment, const std::vector<std::pair<int, bool>>& blocks) const {
    std::vector<std::string> texts;
    int at = 0;
    for (const auto& [size, allocated] : blocks) {
      texts.push_back(
          fmt::format(R"({{"size":{},"requested_size":{},"address":{},"state":"{}","frames":[]}})",
                      std::int64_t{size} << 20, std::int64_t{size} << 20, std::int64_t{at} << 20,
                      allocated ? "active_allocated" : "inactive"));
      at += size;
    }
    return parse_snapshot(
        fmt::format(R"({{"segments":[{{"address":0,"total_size":{},"stream":0,)"
                    R"("segment_type":"large","blocks":[{}]}}],"device_traces":[[{}]],)"
                    R"("external_annotations":[{}]}})",
                    std::int64_t{segment} << 20, fmt::join(texts, ","), fmt::join(events_, ","),
                    fmt::join(ranges_, ",")),
        "sample");
  }

 private:
  Trace& range(const char* stage, const std::string& name, int shift) {
    ranges_.push_back(fmt::format(R"({{"stage":"{}","name":"{}","device":0,"time_us":{}}})", stage,
                                  name, static_cast<int>(events_.size()) + shift));
    return *this;
  }
  std::vector<std::string> ranges_;
  std::string said_;
  std::vector<std::string> events_;
};

inline const std::string kTorch = "/x/site-packages/torch/";
inline const std::string
    kCall = Trace::frame(kTorch + "nn/modules/module.py", 1775, "_wrapped_call_impl"),
    kTrain = Trace::frame("/x/train.py", 9, "main"),
    kForward = Trace::stack({Trace::frame("/x/model.py", 88, "forward"), kCall, kTrain}),
    kBackward =
        Trace::stack({Trace::frame("engine.cpp", 0, "torch::autograd::Engine::evaluate_function")}),
    kStep = Trace::stack({Trace::frame(kTorch + "optim/adam.py", 100, "_init_group"),
                          Trace::frame(kTorch + "optim/adam.py", 200, "step"), kTrain}),
    kTemporary = Trace::stack({Trace::frame(kTorch + "optim/adam.py", 300, "step"), kTrain}),
    kOutside = Trace::stack({kTrain}),
    kZero = Trace::stack({Trace::frame(kTorch + "optim/optimizer.py", 9, "zero_grad"), kTrain}),
    kEmpty = Trace::stack({Trace::frame(kTorch + "cuda/memory.py", 9, "empty_cache"), kTrain});

/// A step: 30 MiB of activations, 10 of a gradient, 10 of state, temporaries of 5 in the backward
/// and in the optimizer; then memory runs out in the forward of the second step.
inline Snapshot sample() {
  return Trace()
      .add("segment_alloc", 0, 100, kOutside)
      .add("alloc", 0, 20, kOutside)
      .add("alloc", 20, 30, kForward)
      .add("alloc", 50, 10, kBackward)
      .add("alloc", 60, 5, kBackward)
      .freed(60, 5, kBackward)
      .freed(20, 30, kBackward)
      .add("alloc", 60, 10, kStep)
      .add("alloc", 70, 5, kTemporary)
      .freed(70, 5, kTemporary)
      .freed(50, 10, kZero)
      .add("alloc", 20, 30, kForward)
      .add("oom", 7, 60, kForward)
      .snapshot(100, {{20, true}, {30, true}, {10, false}, {10, true}, {30, false}});
}

}  // namespace tidemark
