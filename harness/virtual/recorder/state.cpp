#include "harness/virtual/recorder/state.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>

#include "harness/virtual/device/memory_use.h"
#include "harness/virtual/recorder/backward.h"

namespace tidemark::recorder {
namespace {

using Action = AllocatorEntry::Action;

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string begun(Tag tag) { return {static_cast<char>(tag)}; }

constexpr const char* kBackward = "backward";

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

State::State(const std::string& path, History kind)
    : history(kind != History::none), file_(path), bounded_(kind == History::bounded) {
  Header& header = file_.header();
  header.pid = getpid();
  header.begin_us = last_us_ = now_us();
  header.rank = -1;
  header.has_events = history ? 1 : 0;
  header.magic = kMagic;
  if (history) begin_step();
}

void State::write(std::string& entry, bool timed) {
  if (failed_) return;
  if (!definitions_.empty()) {
    repeats_.keep();
    append(definitions_);
    definitions_.clear();
  }
  repeats_.add(entry);
  if (timed) {
    const std::int64_t time = now_us();
    put_signed(entry, time - last_us_);
    last_us_ = time;
  }
  append(entry);
}

void State::append(std::string_view entry) {
  if (failed_ || file_.append(entry)) return;
  failed_ = true;
  file_.header().has_events = kUntilFull;
}

void State::put_address(std::string& entry, std::uint64_t value) {
  put_signed(entry, static_cast<std::int64_t>(value - last_address_));
  last_address_ = value;
}

void State::on_block(std::size_t device, std::int64_t bytes) {
  if (!history || bytes == rounded(figures(device).unsettled)) return;
  std::string entry = begun(Tag::block);
  put(entry, device);
  put(entry, static_cast<std::uint64_t>(bytes));
  write(entry);
}

void State::on_settled(std::size_t device) { commit(device); }

void State::commit(std::size_t device) {
  file_.figures(device) = figures(device);
  file_.commit();
}

void State::on_event(const AllocatorEntry& entry) {
  const auto device = static_cast<std::size_t>(entry.device_);
  const auto at = static_cast<std::uint64_t>(entry.addr_);
  if (entry.action_ == Action::FREE_COMPLETED) forget_labels(at, entry.size_);
  if (!history) return commit(device);
  const bool made = entry.action_ == Action::ALLOC || entry.action_ == Action::SEGMENT_ALLOC ||
                    entry.action_ == Action::SEGMENT_MAP || entry.action_ == Action::OOM;
  const bool oom = entry.action_ == Action::OOM;  // its address is what the device has free
  const Number stack = made ? names_.stack(is_without_place() ? backward_ : 0) : 0;
  std::string& out = event_;
  out.assign(1, static_cast<char>(Tag::event));
  put(out, static_cast<std::uint64_t>(entry.action_));
  put(out, device);
  put_address(out, oom ? last_address_ : at);
  put(out, entry.size_);
  if (oom) put(out, at);
  put(out, reinterpret_cast<std::uintptr_t>(entry.stream_));
  put(out, stack);
  put(out, made ? module_now(names_) : 0);
  put(out, made ? node_now() : 0);
  write(out, true);
  commit(device);
}

void State::forget_labels(std::uint64_t at, std::uint64_t bytes) {
  labels_.erase(labels_.lower_bound(at),
                labels_.lower_bound(at + std::max<std::uint64_t>(bytes, 1)));
}

void State::label(std::uint64_t at, std::string_view kind, std::string_view name) {
  const auto known = labels_.find(at);
  if (known != labels_.end() && known->second.first == kind && known->second.second == name) return;
  // What a program copies over a tensor that it has does not make another kind of it.
  if (known != labels_.end() && kind == device::kUploaded) return;
  labels_[at] = {std::string(kind), std::string(name)};
  if (!history) return;
  const Number kind_of = names_.string(kind), name_of = names_.string(name);
  std::string entry = begun(Tag::label);
  put_address(entry, at);
  put(entry, kind_of);
  put(entry, name_of);
  write(entry);
  file_.commit();
}

const std::string* State::parameter_at(std::uint64_t at) const {
  const auto known = labels_.find(at);
  return known != labels_.end() && known->second.first == "parameters" ? &known->second.second
                                                                       : nullptr;
}

void State::gather(std::uint64_t output, std::uint64_t shard, std::int64_t bytes) {
  if (!history) return;
  std::string entry = begun(Tag::gather);
  put_address(entry, output);
  put_address(entry, shard);
  put(entry, static_cast<std::uint64_t>(bytes));
  write(entry);
  file_.commit();
}

void State::begin_step() {
  if (file_.size() > 0 && !failed_) {
    const std::size_t repeated = repeats_.next();
    if (bounded_) bound_.next(repeated, repeats_.counts());
  }
  last_address_ = 0;
  const std::int64_t time = now_us();
  last_us_ = time;
  std::string entry = begun(Tag::step);
  put(entry, static_cast<std::uint64_t>(step_));
  put_signed(entry, time - file_.header().begin_us);
  append(entry);
  file_.commit();
}

void State::show_phase() {
  Header& header = file_.header();
  header.step = step_;
  const std::string name = open_.empty() ? "" : open_.back().substr(0, sizeof header.phase - 1);
  std::strcpy(header.phase, name.c_str());
}

std::int64_t State::phase(const std::string& name) {
  if (name == "optimizer") {
    stepped_ = has_optimizer_ = true;
  } else if (name == "forward" || name == kBackward) {
    // The first one after the optimizers of a step. Without an optimizer every outermost forward
    // may be that of a repetition; ranges of the program's own may lie around it.
    const auto inside = [](const std::string& open) {
      return open == "forward" || open == kBackward || open == "optimizer";
    };
    const bool again =
        !has_optimizer_ && name == "forward" && std::none_of(open_.begin(), open_.end(), inside);
    if (stepped_) ++step_;
    if (stepped_ || again) ++repetition_;
    if (history && (stepped_ || again)) begin_step();
    stepped_ = false;
  }
  if (history && name == kBackward) backward_ = names_.stack();
  open_.push_back(name);
  show_phase();
  write_phase(Tag::phase, name);
  return repetition_;
}

void State::phase_end(const std::string& name) {
  const auto innermost = std::find(open_.rbegin(), open_.rend(), name);
  if (innermost == open_.rend()) return;
  open_.erase(std::next(innermost).base());
  if (name == kBackward) backward_ = 0;
  show_phase();
  write_phase(Tag::phase_end, name);
}

void State::write_phase(Tag tag, const std::string& name) {
  if (!history) return;
  std::string entry = begun(tag);
  put(entry, names_.string(name));
  write(entry, true);
  file_.commit();
}

void State::setting(std::string_view name, std::string_view value) {
  definitions_ += begun(Tag::setting);  // stays, whatever repeats itself
  put_text(definitions_, name);
  put_text(definitions_, value);
  std::string none;
  write(none);
  file_.commit();
}

}  // namespace tidemark::recorder
