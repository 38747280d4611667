// The record of this process while it is written.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/virtual/recorder/bound.h"
#include "harness/virtual/recorder/file.h"
#include "harness/virtual/recorder/follower.h"
#include "harness/virtual/recorder/names.h"
#include "harness/virtual/recorder/repeats.h"

namespace tidemark::recorder {

/// Events of the allocator in a record: none, those that Bound keeps (bound.h), or those of all
/// steps that differ, in a file that grows with them.
enum class History { none, bounded, all };

/// Writer of the record's entries. No thread waits for Python's lock while it holds the follower's.
class State : public Follower {
 public:
  State(const std::string& path, History history);

  const bool history;  // not figures alone
  RecordFile& file() { return file_; }
  Names& names() { return names_; }

  void label(std::uint64_t address, std::string_view kind, std::string_view name);
  /// The name of the parameter at the address; nullptr: there is none.
  const std::string* parameter_at(std::uint64_t address) const;
  void gather(std::uint64_t output, std::uint64_t shard, std::int64_t bytes);
  /// Returns the number of the step or repetition that it is part of.
  std::int64_t phase(const std::string& name);
  void phase_end(const std::string& name);
  void setting(std::string_view name, std::string_view value);

 private:
  void on_block(std::size_t device, std::int64_t bytes) override;
  void on_event(const AllocatorEntry& entry) override;
  void on_settled(std::size_t device) override;
  /// The figures and what was written hold.
  void commit(std::size_t device);
  /// Appends the definitions that an entry has made, then the entry. A timed entry gets the
  /// microseconds since the timed entry before it as its last number. Not committed.
  void write(std::string& entry, bool timed = false);
  /// Appends to the file, until the file system has had no room for an entry.
  void append(std::string_view entry);
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
  Number backward_ = 0;            // the stack that called the backward that runs
  std::map<std::uint64_t, std::pair<std::string, std::string>> labels_;  // kind, name
};

}  // namespace tidemark::recorder
