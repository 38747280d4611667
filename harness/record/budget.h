// What a command may spend on the files that it reads: memory and time, whatever their format.
// Readers need not count: memory is counted where it is allocated (counted_new.cpp, in the programs
// that read files of others), values after references are followed included, and time where the
// kernel counts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

namespace tidemark {

/// Thrown where more would be spent. Its text is one line: the file, the place in it, what it
/// takes, and the most that it may take.
struct Overspent : std::bad_alloc {
  const char* what() const noexcept override;
};

inline constexpr std::uint64_t kSmallFile = 1 << 20;  // bytes
inline constexpr std::int64_t kBudgetBytes = 800 << 20;
inline constexpr int kBudgetSeconds = 9;  // of the processor
/// Of each byte of the files, where these are more in all than kBudgetBytes. What is packed (by
/// gzip; a record's entries) is taken to have 25 times its size, at most.
inline constexpr std::int64_t kBudgetPerByte = 4, kBudgetPerPacked = 100;

/// From its begin to its end this process spends from one budget: kBudgetBytes and kBudgetSeconds,
/// or more for files that are larger than kSmallFile: a second for each MiB. One at a time.
class Budget {
 public:
  explicit Budget(int seconds = kBudgetSeconds);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;
};

/// Ends the budget that is open: what has been read is worked on, by means that are not ours.
void end_budget();

/// A file of so many bytes is read from here on. One of more than kSmallFile is named on stderr
/// where three seconds of the budget go by in all.
void spend_on(const std::string& file, std::uint64_t bytes, bool packed);

/// The place in the file that is read at present, for the line of Overspent: `text(object)`. Places
/// lie in one another.
class ReadingAt {
 public:
  template <class T>
  explicit ReadingAt(const T& object)
      : ReadingAt(&object, [](const void* of) { return static_cast<const T*>(of)->place(); }) {}
  ~ReadingAt();
  ReadingAt(const ReadingAt&) = delete;
  ReadingAt& operator=(const ReadingAt&) = delete;

 private:
  using Text = std::string (*)(const void*);
  ReadingAt(const void* object, Text text);
  const ReadingAt* before_;
  const void* object_;
  Text text_;
  friend struct Spending;
};

/// Called by operator new and delete (counted_new.cpp), with bytes as the allocator has them.
void spend(std::size_t bytes);
void keep(std::size_t asked, std::size_t got) noexcept;
void give_back(std::size_t bytes) noexcept;
/// Called by operator new where the host has no memory left; true from then on. An error that
/// follows may be one of that alone.
void note_memory_end() noexcept;
bool memory_ended() noexcept;
/// True once Overspent has been thrown.
bool overspent() noexcept;
/// For tests: the n-th allocation from here on throws std::bad_alloc, once; 0: none does.
void fail_allocation(std::uint64_t n);
/// Allocations while budgets were open.
std::uint64_t allocations();

}  // namespace tidemark
