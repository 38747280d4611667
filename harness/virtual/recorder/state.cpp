#include "harness/virtual/recorder/state.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "harness/virtual/operators/device_calls.h"
#include "harness/virtual/recorder/backward.h"
#include "harness/virtual/recorder/collector.h"
#include "harness/virtual/recorder/recorder.h"

namespace tidemark::recorder {

std::int64_t system_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

namespace {

constexpr const char* kBackward = "backward";

/// The block that this thread has allocated last, if outside modules.
thread_local std::uint64_t last_outside = 0;

/// True in a thread of autograd's where nothing has a place of the program's: a hook before a node
/// (FSDP gathers parameters), or a node without a forward (AccumulateGrad, with DDP's hooks).
bool is_without_place() {
  thread_local const bool is_autograds = [] {
    char name[16] = {};
    prctl(PR_GET_NAME, name);
    return std::string_view(name).starts_with("pt_autograd");
  }();
  return is_autograds && !node_now_has_place();
}

}  // namespace

State::State(const std::string& path, History kind) : Writer(path, kind, system_ns()) {
  begin_step(step_);
}

std::int64_t State::now_ns() { return system_ns(); }

Writer::Place State::place_now() {
  const bool has_place = !is_without_place();
  const Place place{stacks_.now(has_place ? 0 : backward_), module_now(*this), node_now()};
  in_forward_ = place.module != 0 && place.node == 0;
  outside_ = place.module == 0 && place.node == 0 && has_place;
  return place;
}

Books State::books(std::size_t device) {
  Books out;
  if (operators::device.read_memory == nullptr) return out;
  const std::uint64_t changes = operators::device.memory_changes();
  if (std::exchange(read_[device], changes) == changes) return out;
  tidemark_refused refused{};
  operators::device.read_memory(
      static_cast<int>(device),
      [](void* all, std::int64_t bytes, std::uint64_t address) {
        static_cast<std::vector<Books::Change>*>(all)->push_back({bytes, address});
      },
      &out.changes, &refused);
  out.refused = static_cast<std::int64_t>(refused.wanted);
  out.left = static_cast<std::int64_t>(refused.left);
  return out;
}

std::int64_t State::total_of(std::size_t device) {
  return operators::device.memory_total == nullptr
             ? 0
             : static_cast<std::int64_t>(operators::device.memory_total(static_cast<int>(device)));
}

const std::string* State::parameter_at(std::uint64_t at) const {
  const auto* known = label_at(at);
  return known != nullptr && known->first == "parameters" ? &known->second : nullptr;
}

void State::gather(std::uint64_t output, std::uint64_t shard, std::int64_t bytes) {
  if (!history) return;
  std::string entry = {static_cast<char>(Tag::gather)};
  put_address(entry, output);
  put_address(entry, shard);
  put(entry, static_cast<std::uint64_t>(bytes));
  write(entry);
  file().commit();
}

bool State::before_event(const AllocatorEntry& entry) {
  if (entry.action_ == AllocatorEntry::FREE_REQUESTED && collects())
    write_use(static_cast<std::uint64_t>(entry.addr_), BlockUse::collected);
  if (!ended_) uses_.before(entry);
  return !ended_;
}

void State::on_allocated(std::uint64_t address) {
  last_outside = outside_ ? address : 0;
  if (in_forward_) uses_.made_in_forward(address);
  if (Operator::now == nullptr) return;
  const int place = Operator::now->allocated();
  if (!outside_) return;
  write_computed_from_gradients(address, place);
  if (const void* source = Operator::now->source; source != nullptr) {
    uses_.made_in_forward(address);
    write_computed(address, reinterpret_cast<std::uintptr_t>(source));
  }
}

void State::overwritten(std::uint64_t address) {
  if (address == 0 || address != last_outside || uses_.is_of_forward(address)) return;
  uses_.made_in_forward(address);
  write_computed(address, reinterpret_cast<std::uintptr_t>(Operator::now->source));
}

void State::written(std::uint64_t address, int place, bool overwrites) {
  if (module_now(*this) != 0 || node_now() != 0 || is_without_place()) return;
  if (overwrites && uses_.computed_from(address, address)) write_computed(address, address);
  write_computed_from_gradients(address, place);
}

void State::write_computed_from_gradients(std::uint64_t address, int place) {
  if (std::ranges::find(open(), "optimizer") != open().end()) return;
  for (const Operator* one = Operator::now; one != nullptr; one = one->outer)
    for (const Operator::Source& source : one->gradients)
      if (source.place < 0 || place < 0 || source.place == place) {
        const auto at = reinterpret_cast<std::uintptr_t>(source.address);
        if (at != address && uses_.computed_from(address, at)) write_computed(address, at);
      }
}

void State::write_computed(std::uint64_t address, std::uint64_t source) {
  std::string entry = {static_cast<char>(Tag::computed)};
  put_address(entry, address);
  put_address(entry, source);
  write(entry);
  file().commit();
}

void State::use(std::uint64_t address, BlockUse use) {
  if (!history || ended_) return;
  if (use != BlockUse::read) return write_use(address, use);
  uses_.read(address, [this](std::uint64_t block) { write_use(block, BlockUse::read); });
}

void State::write_use(std::uint64_t address, BlockUse use) {
  std::string entry = {static_cast<char>(Tag::use)};
  put_address(entry, address);
  put(entry, static_cast<std::uint64_t>(use));
  write(entry);
  file().commit();
}

std::int64_t State::phase(const std::string& name) {
  if (name == "optimizer") uses_.bound();
  if (name == "optimizer") {
    stepped_ = has_optimizer_ = true;
  } else if (name == "forward" || name == kBackward) {
    // The first one after the optimizers of a step. Without an optimizer every outermost forward
    // may be that of a repetition; ranges of the program's own may lie around it.
    const auto inside = [](const std::string& open) {
      return open == "forward" || open == kBackward || open == "optimizer";
    };
    const bool again =
        !has_optimizer_ && name == "forward" && std::none_of(open().begin(), open().end(), inside);
    if (stepped_) ++step_;
    if (stepped_ || again) ++repetition_;
    if (stepped_ || again) begin_step(step_);
    stepped_ = false;
  }
  if (history && name == kBackward) backward_ = stacks_.now();
  enter(name);
  return repetition_;
}

void State::phase_end(const std::string& name) {
  if (!leave(name) || name != kBackward) return;
  backward_ = 0;
  uses_.bound();
  uses_.begin_step();
}

}  // namespace tidemark::recorder
