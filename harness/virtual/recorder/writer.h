// Writer of a record's entries (format.h): what is the same in the record of a program and in that
// of a scenario.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "harness/memory/format/bound.h"
#include "harness/memory/format/file.h"
#include "harness/memory/format/names.h"
#include "harness/memory/format/repeats.h"
#include "harness/virtual/recorder/follower.h"

namespace tidemark::recorder {

/// Events of the allocator in a record: none, those that Bound keeps (bound.h), or those of all
/// steps that differ, in a file that grows with them.
enum class History { none, bounded, all };

/// Members other than the constructor are called by one who has the follower's mutex.
class Writer : public Follower {
 public:
  const bool history;  // not figures alone
  RecordFile& file() { return file_; }
  Names& names() { return names_; }

  void label(std::uint64_t address, std::string_view kind, std::string_view name);
  /// The kind and the name of the tensor at the address; nullptr: there is none.
  const std::pair<std::string, std::string>* label_at(std::uint64_t address) const;
  void setting(std::string_view name, std::string_view value);
  /// What this thread frees from now on is a tensor of this kind; empty: no longer.
  void name_freed(std::string_view kind);
  /// A step begins. `stays`: it is kept whole, also if it is like one before.
  void begin_step(std::int64_t number, bool stays = false);
  /// A stretch of the program begins, or the innermost one of that name ends; false: there is none.
  void enter(const std::string& name);
  bool leave(const std::string& name);

 protected:
  /// Where an allocation comes from.
  struct Place {
    Number stack = 0, module = 0, node = 0;
  };

  /// A stream in the record, where it has names of streams; empty: it has its handle alone.
  struct Stream {
    std::uint64_t number = 0;
    std::string name;
  };

  /// The file must be empty; `begin_ns`: the clock's time now.
  Writer(const std::string& path, History history, std::int64_t begin_ns);
  Writer(int file, History history, std::int64_t begin_ns);

  const std::vector<std::string>& open() const { return open_; }
  /// Appends the definitions that an entry has made, then the entry. A timed entry gets the
  /// nanoseconds since the timed entry before it as its last number. Not committed.
  void write(std::string& entry, bool timed = false);
  void put_address(std::string& entry, std::uint64_t value);

 private:
  virtual std::int64_t now_ns() = 0;
  virtual Place place_now() = 0;
  /// An event of the allocator is to be written; false: it is not.
  virtual bool before_event(const AllocatorEntry&) { return true; }
  /// An allocation was written.
  virtual void on_allocated(std::uint64_t) {}
  virtual Stream stream_of(void*) { return {}; }

  void start(std::int64_t begin_ns);
  void on_block(std::size_t device, std::int64_t bytes) override;
  void on_event(const AllocatorEntry& entry) override;
  void on_settled(std::size_t device) override;
  void on_refused(std::size_t device, const Refusal& refusal) override;
  void on_pool(std::size_t device, std::uint64_t address, const Pool& pool) override;
  /// The figures and what was written hold.
  void commit(std::size_t device);
  /// Appends to the file, until the file system has had no room for an entry.
  void append(std::string_view entry);
  void show_phase();
  void write_phase(Tag tag, const std::string& name);
  void forget_labels(std::uint64_t address, std::uint64_t bytes);
  std::uint64_t stream_number(void* stream);

  RecordFile file_;
  std::string definitions_, event_;
  Names names_{definitions_};
  Repeats repeats_{file_};
  Bound bound_{file_};
  std::uint64_t last_address_ = 0;
  std::int64_t last_ns_ = 0, step_ = 1;
  bool failed_ = false;
  std::string freed_kind_;
  std::thread::id frees_;
  const bool bounded_;
  std::vector<std::string> open_;  // phases, the innermost last
  std::map<void*, std::uint64_t> streams_;
  std::map<std::uint64_t, std::pair<std::string, std::string>> labels_;  // kind, name
};

}  // namespace tidemark::recorder
