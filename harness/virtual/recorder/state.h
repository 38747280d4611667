// The record of this process while it is written.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/virtual/recorder/bound.h"
#include "harness/virtual/recorder/file.h"
#include "harness/virtual/recorder/names.h"
#include "harness/virtual/recorder/repeats.h"

namespace tidemark::recorder {

using AllocatorEntry = c10::cuda::CUDACachingAllocator::TraceEntry;
using AllocatorStats = decltype(c10::cuda::CUDACachingAllocator::getDeviceStats(0));

/// What a record has beside its figures: the allocator's events, and whether also all those of
/// steps that differ, in a file that grows with them.
enum class History { none, bounded, all };

/// Writer of the record's entries. Its lock is taken after the allocator's own and never before it,
/// and no thread waits for Python's lock while it holds this one.
class State {
 public:
  State(const std::string& path, History history);

  std::mutex mutex;
  const bool history;  // not figures alone
  RecordFile& file() { return file_; }
  Names& names() { return names_; }

  /// An event of the allocator that is no snapshot; `stats` are those of its device now.
  void event(const AllocatorEntry& entry, const AllocatorStats& stats);
  /// Brings a device's figures up to the allocation before.
  void settle(std::size_t device, const AllocatorStats& stats);
  void label(std::uint64_t address, std::string_view kind, std::string_view name);
  /// The name of the parameter at the address; nullptr: there is none.
  const std::string* parameter_at(std::uint64_t address) const;
  void gather(std::uint64_t output, std::uint64_t shard, std::int64_t bytes);
  /// Returns the number of the step or repetition that it is part of.
  std::int64_t phase(const std::string& name);
  void phase_end(const std::string& name);
  void setting(std::string_view name, std::string_view value);

 private:
  /// Appends the definitions that an entry has made, then the entry. A timed entry gets the
  /// microseconds since the timed entry before it as its last number. Not committed.
  void write(std::string& entry, bool timed = false);
  void settled(std::size_t device, const AllocatorStats& stats);
  void begin_step();
  void show_phase();
  void write_phase(Tag tag, const std::string& name);
  void put_address(std::string& entry, std::uint64_t value);
  void forget_labels(std::uint64_t address, std::uint64_t bytes);

  RecordFile file_;
  std::string definitions_, event_;
  Names names_{definitions_};
  Repeats repeats_{file_};
  Bound bound_{file_};
  std::uint64_t last_address_ = 0;
  std::int64_t last_us_ = 0;
  std::int64_t step_ = 1, repetition_ = 1;
  bool stepped_ = false, has_optimizer_ = false, failed_ = false;
  const bool bounded_;
  std::vector<std::string> open_;  // phases, the innermost last
  std::map<std::uint64_t, std::pair<std::string, std::string>> labels_;  // kind, name
};

}  // namespace tidemark::recorder
