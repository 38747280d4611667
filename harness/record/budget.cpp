#include "harness/record/budget.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <utility>

#include "harness/record/one_line.h"

namespace tidemark {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSlower = 10;
#elif defined(__has_feature)
constexpr int kSlower = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||
                                __has_feature(undefined_behavior_sanitizer)
                            ? 10
                            : 1;
#else
constexpr int kSlower = 1;
#endif
constexpr std::int64_t kLeastBytes = kBudgetBytes * (kSlower > 1 ? 4 : 1);
constexpr std::int64_t kEnd = 64 << 20;  // bytes for the end of a reader that was refused
constexpr int kMercy = 3;                // seconds in which a reader may come to an allocation
constexpr int kTold = 3;                 // seconds after which a large file is named

std::atomic<bool> budget_open{false}, budget_late{false}, budget_refused{false}, host_ended{false};
std::atomic<std::int64_t> budget_used{0}, budget_most{0};
std::atomic<std::uint64_t> budget_count{0}, budget_fails_at{0};
std::int64_t budget_seconds = 0, budget_files = 0;  // bytes that the files may take
std::int64_t budget_begin = 0;                      // seconds of the processor, of this process
// Lines; the handler of a signal may allocate nothing. The second is of progress.
char budget_said[1024], budget_goes_on[1024];
std::atomic<bool> budget_tells{false};     // the timer is for that line
std::atomic<std::int64_t> budget_rest{0};  // seconds that are left behind it

template <std::size_t n>
void say(char (&line)[n], const std::string& text) {
  const std::size_t size = std::min(text.size(), n - 1);
  std::memcpy(line, text.data(), size);
  line[size] = 0;
}

void set_timer(std::int64_t after) {
  const itimerval value{{0, 0}, {static_cast<time_t>(after), 0}};
  setitimer(ITIMER_PROF, &value, nullptr);
}

std::int64_t seconds_of_processor() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec;
}

void put(const char* text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
}

/// Tells that a large file is being read. The next time a reader is told at its next allocation
/// that there is no more time; the one after that ends one that makes none.
void on_timer(int) {
  if (budget_tells.exchange(false)) {
    put(budget_goes_on);
    return set_timer(budget_rest);
  }
  if (!budget_late.exchange(true)) return set_timer(kMercy * kSlower);
  put("error: "), put(budget_said), put("\n");
  _exit(2);
}

}  // namespace

/// Of the budget that is open.
struct Spending {
  static inline std::string file;
  static inline thread_local const ReadingAt* place = nullptr;
  static inline thread_local bool refusing = false;  // the line may take what it needs
  struct Refusing {
    Refusing() { refusing = true; }
    ~Refusing() { refusing = false; }
  };

  static std::string where() {
    if (place == nullptr) return file;
    const std::string text = place->text_(place->object_);
    return file.empty() || text.starts_with(file) ? text : file + ": " + text;
  }
  /// `late`: it has no time left, else no memory.
  [[noreturn]] static void refuse(bool late) {
    const ReadingAt* at = std::exchange(place, nullptr);
    const Refusing now;
    const std::string what = late ? fmt::format("{} s", budget_seconds)
                                  : fmt::format("{} MiB of memory", budget_most.load() >> 20);
    budget_most = std::max(budget_most.load(), budget_used.load()) + kEnd;
    budget_late = false;
    set_timer(kMercy * kSlower);
    place = at;
    say(budget_said,
        fmt::format("{}: takes more than {}, which is the most that a file of its size may take: "
                    "it is damaged, or not what tidemark or PyTorch wrote",
                    one_line(where()), what));
    budget_refused = true;
    throw Overspent();
  }
};

const char* Overspent::what() const noexcept { return budget_said; }

Budget::Budget(int seconds) {
  budget_used = 0, budget_most = kLeastBytes, budget_files = 0;
  budget_begin = seconds_of_processor();
  budget_seconds = seconds * kSlower;
  Spending::file.clear();
  say(budget_said, "reading takes too long");
  struct sigaction action {};
  action.sa_handler = on_timer;
  action.sa_flags = SA_RESTART;  // what is written meanwhile is written whole
  sigaction(SIGPROF, &action, nullptr);
  budget_late = budget_tells = false;
  set_timer(budget_seconds);
  budget_open = true;
}

Budget::~Budget() { end_budget(); }

void end_budget() {
  if (budget_open.exchange(false)) set_timer(0);
}

void spend_on(const std::string& file, std::uint64_t bytes, bool packed) {
  Spending::file = file;
  if (!budget_open) return;
  const auto more = static_cast<std::int64_t>(bytes > kSmallFile ? bytes - kSmallFile : 0);
  budget_files += static_cast<std::int64_t>(bytes) * (packed ? kBudgetPerPacked : kBudgetPerByte);
  budget_most = std::max(budget_most.load(), std::max(kLeastBytes, budget_files));
  const std::int64_t text = packed ? more * kBudgetPerPacked / kBudgetPerByte : more;
  const std::int64_t seconds =
      text / static_cast<std::int64_t>(kSmallFile) * kSlower;  // one for each MiB
  budget_seconds += seconds;
  say(budget_said,
      fmt::format("{}: takes more than {} s, which is the most that a file of its size may take: "
                  "it is damaged, or not what tidemark or PyTorch wrote",
                  one_line(file), budget_seconds));
  if (budget_late) return;
  itimerval timer{};
  getitimer(ITIMER_PROF, &timer);
  timer.it_value.tv_sec += seconds + (budget_tells.exchange(false) ? budget_rest.load() : 0);
  if (more > 0 && timer.it_value.tv_sec > kTold) {
    say(budget_goes_on,
        fmt::format("tidemark: {}: reading {} MiB ...\n", one_line(file), bytes >> 20));
    // From the begin of the command on: several files may take long together.
    const time_t wait = std::max<std::int64_t>(kTold - (seconds_of_processor() - budget_begin), 1);
    budget_rest = timer.it_value.tv_sec - wait;
    budget_tells = true;
    timer.it_value.tv_sec = wait;
  }
  setitimer(ITIMER_PROF, &timer, nullptr);
}

ReadingAt::ReadingAt(const void* object, Text text)
    : before_(std::exchange(Spending::place, this)), object_(object), text_(text) {}
ReadingAt::~ReadingAt() { Spending::place = before_; }

void spend(std::size_t bytes) {
  if (!budget_open.load(std::memory_order_relaxed)) return;
  if (const std::uint64_t at = ++budget_count; at == budget_fails_at) {
    budget_fails_at = 0;
    throw std::bad_alloc();
  }
  const std::int64_t left = budget_most - budget_used;
  if (Spending::refusing ||
      std::uncaught_exceptions() > 0) {  // what goes at the end of a reader takes what it needs
    budget_used += static_cast<std::int64_t>(bytes);
    return;
  }
  if (left < 0 || bytes > static_cast<std::uint64_t>(left)) Spending::refuse(false);
  if (budget_late) Spending::refuse(true);
  budget_used += static_cast<std::int64_t>(bytes);
}

void keep(std::size_t asked, std::size_t got) noexcept {
  if (budget_open.load(std::memory_order_relaxed))
    budget_used += static_cast<std::int64_t>(got - asked);
}

void give_back(std::size_t bytes) noexcept {
  if (budget_open.load(std::memory_order_relaxed)) budget_used -= static_cast<std::int64_t>(bytes);
}

void note_memory_end() noexcept { host_ended = true; }
bool memory_ended() noexcept { return host_ended; }
bool overspent() noexcept { return budget_refused; }

void fail_allocation(std::uint64_t n) { budget_fails_at = n == 0 ? 0 : budget_count + n; }

std::uint64_t allocations() { return budget_count; }

}  // namespace tidemark
