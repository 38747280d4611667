#include "harness/virtual/device/symmetric_memory.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/deferred.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/names.h"
#include "harness/virtual/device/patience.h"
#include "harness/virtual/device/refusal.h"
#include "harness/virtual/device/signals.h"
#include "harness/virtual/device/symmetric_programs.h"

namespace tidemark::device {
namespace {

using Clock = std::chrono::steady_clock;

/// One change of a word that the kernel waits for.
struct Wait {
  Signal signal;
  bool takes;  // else puts
  std::size_t partner;
  bool over = false;
  Ns time = 0;  // when it was
};

/// A kernel under way, asked again and again (deferred.h).
class Running {
 public:
  Running(StreamHandle stream, std::string name, SymmetricProgram program)
      : stream_(stream), name_(std::move(name)), program_(std::move(program)) {}

  bool advance() {
    if (sticky_error() != cudaSuccess) return true;
    if (start_ < 0) {
      time_ = start_ = begin_collective(stream_);
      begin_part();
    }
    for (; part_ < program_.parts.size(); begin_part()) {
      if (!all_over()) return gives_up();
      if (time_ > latest()) return trap(cudaErrorLaunchFailure);
      if (program_.parts[part_].then) program_.parts[part_].then();
      ++part_;
    }
    const double ns_per_byte = 1 / links().nvlink_gbps;
    end_collective(stream_, name_, start_,
                   time_ + static_cast<Ns>(static_cast<double>(program_.bytes) * ns_per_byte));
    return true;
  }

 private:
  Ns latest() const {
    return program_.group.timeout_ms == 0
               ? std::numeric_limits<Ns>::max()
               : part_start_ + static_cast<Ns>(program_.group.timeout_ms) * 1'000'000;
  }

  void begin_part() {
    waits_.clear();
    part_start_ = time_;
    since_ = Clock::now();
    if (part_ == program_.parts.size()) return;
    for (const std::size_t to : program_.parts[part_].put_to)
      waits_.push_back({Signal(program_.group.word(program_.group.rank, to)), false, to});
    for (const std::size_t from : program_.parts[part_].take_from)
      waits_.push_back({Signal(program_.group.word(from, program_.group.rank)), true, from});
  }

  // A signal carries the time at which its rank came here, not that of a partner who came before.
  bool all_over() {
    for (Wait& wait : waits_) {
      if (wait.over) continue;
      wait.time = part_start_;
      wait.over = wait.takes ? wait.signal.take(wait.time) : wait.signal.put(wait.time);
      if (wait.over) time_ = std::max(time_, wait.time);
    }
    return std::ranges::all_of(waits_, &Wait::over);
  }

  bool gives_up() {
    const std::chrono::duration<double> waited = Clock::now() - since_;
    const bool own = program_.group.timeout_ms > 0;
    const std::chrono::duration<double> enough =
        own ? std::max<std::chrono::duration<double>>(
                  std::chrono::milliseconds(program_.group.timeout_ms), kSlowPartner)
            : patience_of_device();
    return waited > enough && trap(own ? cudaErrorLaunchFailure : cudaErrorLaunchTimeout);
  }

  bool trap(cudaError_t error) {
    auto late = std::ranges::find(waits_, false, &Wait::over);
    if (late == waits_.end()) late = std::ranges::max_element(waits_, {}, &Wait::time);
    say_once(
        name_ + " (symmetric memory): rank " + std::to_string(program_.group.rank) +
        (late->takes ? " received no signal of rank " : " waited for an earlier signal to rank ") +
        std::to_string(late->partner) + (late->takes ? "" : " to be taken") + " on channel " +
        std::to_string(program_.group.channel) +
        (error == cudaErrorLaunchFailure
             ? " within " + std::to_string(program_.group.timeout_ms) + " ms"
             : " within one and a half times TIDEMARK_TIMEOUT"));
    break_context(error);
    return true;
  }

  StreamHandle stream_;
  std::string name_;
  SymmetricProgram program_;
  std::size_t part_ = 0;
  std::vector<Wait> waits_;  // of this part
  Ns start_ = -1, time_ = 0, part_start_ = 0;
  Clock::time_point since_;
};

}  // namespace

std::optional<SymmetricKernel> symmetric_kernel(const std::string& name, void** arguments) {
  const bool candidate = name.find("symmetric_memory") != std::string::npos ||
                         name.find("_shot_all_reduce_kernel") != std::string::npos;
  if (!candidate || !arguments || !(data_moves() || follows_known())) return std::nullopt;
  const std::string text = readable(name);
  auto program = symmetric_program(text, arguments);
  if (!program) return std::nullopt;
  return [program = std::move(*program),
          name = text.substr(0, text.find_first_of("<("))](StreamHandle stream) {
    const auto start = [=](StreamHandle to) {
      const auto running = std::make_shared<Running>(to, name, program);
      defer(to, [running] { return running->advance(); });
    };
    is_capturing(stream) ? capture_run(stream, name, start) : start(stream);
  };
}

}  // namespace tidemark::device
