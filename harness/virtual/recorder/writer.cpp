#include "harness/virtual/recorder/writer.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "harness/virtual/device/memory_use.h"

namespace tidemark::recorder {
namespace {

using Action = AllocatorEntry::Action;

std::string begun(Tag tag) { return {static_cast<char>(tag)}; }

}  // namespace

Writer::Writer(const std::string& path, History kind, std::int64_t begin_ns)
    : history(kind != History::none), file_(path), bounded_(kind == History::bounded) {
  start(begin_ns);
}

Writer::Writer(int file, History kind, std::int64_t begin_ns)
    : history(kind != History::none), file_(file), bounded_(kind == History::bounded) {
  start(begin_ns);
}

void Writer::start(std::int64_t begin_ns) {
  Header& header = file_.header();
  header.pid = getpid();
  header.begin_ns = last_ns_ = begin_ns;
  header.rank = -1;
  header.has_events = history ? 1 : 0;
  header.magic = kMagic;
}

void Writer::write(std::string& entry, bool timed) {
  if (failed_) return;
  if (!definitions_.empty()) {
    repeats_.keep();
    append(definitions_);
    definitions_.clear();
  }
  repeats_.add(entry);
  if (timed) {
    const std::int64_t time = now_ns();
    put_signed(entry, time - last_ns_);
    last_ns_ = time;
  }
  append(entry);
}

void Writer::append(std::string_view entry) {
  if (failed_ || file_.append(entry)) return;
  failed_ = true;
  file_.header().has_events = kUntilFull;
}

void Writer::put_address(std::string& entry, std::uint64_t value) {
  put_signed(entry, static_cast<std::int64_t>(value - last_address_));
  last_address_ = value;
}

void Writer::on_block(std::size_t device, std::int64_t bytes) {
  if (!history || bytes == rounded(figures(device).unsettled)) return;
  std::string entry = begun(Tag::block);
  put(entry, device);
  put(entry, static_cast<std::uint64_t>(bytes));
  write(entry);
}

void Writer::on_settled(std::size_t device) { commit(device); }

void Writer::on_refused(std::size_t device, const Refusal& refusal) {
  if (history) {
    std::string entry = begun(Tag::refused);
    put(entry, device);
    put(entry, static_cast<std::uint64_t>(refusal.asked));
    put(entry, static_cast<std::uint64_t>(refusal.limit));
    const Figures& f = refusal.figures;
    for (const std::int64_t one : {f.allocated, f.active, f.reserved, f.outside})
      put_signed(entry, one);
    for (const std::uint64_t one :
         {std::uint64_t{refusal.pool.known}, refusal.pool.first, refusal.pool.second})
      put(entry, one);
    write(entry);
  }
  commit(device);
}

void Writer::on_pool(std::size_t device, std::uint64_t address, const Pool& pool) {
  if (!history) return;
  std::string entry = begun(Tag::pool);
  put(entry, device);
  put_address(entry, address);
  put(entry, pool.first);
  put(entry, pool.second);
  write(entry);
  commit(device);
}

void Writer::commit(std::size_t device) {
  file_.figures(device) = figures(device);
  file_.commit();
}

void Writer::on_event(const AllocatorEntry& entry) {
  const auto device = static_cast<std::size_t>(entry.device_);
  const auto at = static_cast<std::uint64_t>(entry.addr_);
  if (entry.action_ == Action::FREE_COMPLETED) forget_labels(at, entry.size_);
  if (!history) return commit(device);
  if (entry.action_ == Action::FREE_REQUESTED && !freed_kind_.empty() &&
      frees_ == std::this_thread::get_id())
    label(at, freed_kind_, "");
  if (!before_event(entry)) return;
  const bool made = entry.action_ == Action::ALLOC || entry.action_ == Action::SEGMENT_ALLOC ||
                    entry.action_ == Action::SEGMENT_MAP || entry.action_ == Action::OOM;
  const bool oom = entry.action_ == Action::OOM;  // its address is what the device has free
  const Place place = made ? place_now() : Place();
  const std::uint64_t stream = stream_number(entry.stream_);
  std::string& out = event_;
  out.assign(1, static_cast<char>(Tag::event));
  put(out, static_cast<std::uint64_t>(entry.action_));
  put(out, device);
  put_address(out, oom ? last_address_ : at);
  put(out, entry.size_);
  if (oom) put(out, at);
  put(out, stream);
  put(out, place.stack);
  put(out, place.module);
  put(out, place.node);
  write(out, true);
  if (entry.action_ == Action::ALLOC) on_allocated(at);
  commit(device);
}

std::uint64_t Writer::stream_number(void* stream) {
  const auto [known, fresh] =
      streams_.try_emplace(stream, reinterpret_cast<std::uintptr_t>(stream));
  if (!fresh) return known->second;
  const Stream named = stream_of(stream);
  if (named.name.empty()) return known->second;
  definitions_ += begun(Tag::stream);
  put(definitions_, known->second = named.number);
  put_text(definitions_, named.name);
  return known->second;
}

void Writer::forget_labels(std::uint64_t at, std::uint64_t bytes) {
  labels_.erase(labels_.lower_bound(at),
                labels_.lower_bound(at + std::max<std::uint64_t>(bytes, 1)));
}

void Writer::label(std::uint64_t at, std::string_view kind, std::string_view name) {
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

void Writer::name_freed(std::string_view kind) {
  freed_kind_ = kind;
  frees_ = std::this_thread::get_id();
}

const std::pair<std::string, std::string>* Writer::label_at(std::uint64_t at) const {
  const auto known = labels_.find(at);
  return known != labels_.end() ? &known->second : nullptr;
}

void Writer::begin_step(std::int64_t number, bool stays) {
  step_ = number;
  if (!history) return;
  if (file_.size() > 0 && !failed_) {
    const std::size_t repeated = repeats_.next();
    if (bounded_) bound_.next(repeated, repeats_.counts());
  }
  last_address_ = 0;
  const std::int64_t time = now_ns();
  last_ns_ = time;
  std::string entry = begun(Tag::step);
  put(entry, static_cast<std::uint64_t>(step_));
  put_signed(entry, time - file_.header().begin_ns);
  append(entry);
  if (stays) repeats_.keep();
  file_.commit();
}

void Writer::show_phase() {
  Header& header = file_.header();
  header.step = step_;
  const std::string name = open_.empty() ? "" : open_.back().substr(0, sizeof header.phase - 1);
  std::strcpy(header.phase, name.c_str());
}

void Writer::enter(const std::string& name) {
  open_.push_back(name);
  show_phase();
  write_phase(Tag::phase, name);
}

bool Writer::leave(const std::string& name) {
  const auto innermost = std::find(open_.rbegin(), open_.rend(), name);
  if (innermost == open_.rend()) return false;
  open_.erase(std::next(innermost).base());
  show_phase();
  write_phase(Tag::phase_end, name);
  return true;
}

void Writer::write_phase(Tag tag, const std::string& name) {
  if (!history) return;
  std::string entry = begun(tag);
  put(entry, names_.string(name));
  write(entry, true);
  file_.commit();
}

void Writer::setting(std::string_view name, std::string_view value) {
  definitions_ += begun(Tag::setting);  // stays, whatever repeats itself
  put_text(definitions_, name);
  put_text(definitions_, value);
  std::string none;
  write(none);
  file_.commit();
}

}  // namespace tidemark::recorder
