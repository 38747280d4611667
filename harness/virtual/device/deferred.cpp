#include "harness/virtual/device/deferred.h"

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/interpreter.h"
#include "harness/virtual/device/patience.h"
#include "harness/virtual/device/race_detector.h"

namespace tidemark::device {
namespace {

using Clock = std::chrono::steady_clock;
// The answers to a program's queries, and what its watchdogs have seen, are the same in every run
// where the partners come in this time. A program that orders its ranks by other means waits for it
// once a collective.
constexpr std::chrono::seconds kWhile{5};
// So is what a thread does on other streams; it waits for kSlowPartner.
const auto legacy_handle = reinterpret_cast<StreamHandle>(std::uintptr_t{1});
constexpr auto kBetweenTries = std::chrono::milliseconds(1);  // of the thread that helps

struct Step {
  std::function<bool()> run;
  std::pair<int, StreamHandle> stream;  // with its device
  std::string op;
  CurrentCall call;  // in which that was called
};

/// The steps of a thread.
struct ThreadSteps {
  std::mutex turn;   // held while a step is carried out
  std::mutex mutex;  // of what follows
  std::deque<Step> steps;
  std::uint64_t done = 0;  // steps
  // For the step of this number, a while and a long one.
  std::optional<std::uint64_t> waited_for, waited_long_for;

  bool empty() {
    const std::lock_guard lock(mutex);
    return steps.empty();
  }
  std::vector<std::pair<int, StreamHandle>> streams() {
    std::vector<std::pair<int, StreamHandle>> out;
    const std::lock_guard lock(mutex);
    for (const Step& one : steps) out.push_back(one.stream);
    return out;
  }
  bool was_waited_for(const std::optional<std::uint64_t>& step) {
    const std::lock_guard lock(mutex);
    return step == done;
  }
  void note_wait(std::optional<std::uint64_t>& step) {
    const std::lock_guard lock(mutex);
    step = done;
  }
  bool carry_on();
};

struct Deferred {
  std::mutex mutex;  // of what follows
  std::vector<std::shared_ptr<ThreadSteps>> threads;
  std::condition_variable arrived;
  bool helped = false;

  std::vector<std::shared_ptr<ThreadSteps>> all() {
    const std::lock_guard lock(mutex);
    return threads;
  }
};
Deferred& deferred() { return immortal<Deferred>(); }

thread_local bool carrying_out = false;
thread_local std::string step_operator;

std::shared_ptr<ThreadSteps> new_steps() {
  auto made = std::make_shared<ThreadSteps>();
  const std::lock_guard lock(deferred().mutex);
  std::erase_if(deferred().threads, [](const auto& steps_of) {
    return steps_of.use_count() == 1 && steps_of->empty();  // its thread has ended
  });
  deferred().threads.push_back(made);
  return made;
}

/// That of the calling thread. A thread that ends leaves its steps to the others.
ThreadSteps& own_steps() {
  thread_local const std::shared_ptr<ThreadSteps> mine = new_steps();
  return *mine;
}

/// Carries out the steps that can be, unless another thread does.
bool ThreadSteps::carry_on() {
  const std::unique_lock turn_lock(turn, std::try_to_lock);
  if (!turn_lock) return false;
  carrying_out = true;
  const int before = current_device();
  const CurrentCall call_before = current_call();
  while (!empty()) {
    Step* first = nullptr;
    {
      const std::lock_guard lock(mutex);
      first = &steps.front();
    }
    current_device() = first->stream.first;
    step_operator = first->op;
    current_call() = first->call;
    const bool done_now = first->run();
    current_call() = call_before;
    if (!done_now) break;
    const std::lock_guard lock(mutex);
    steps.pop_front();
    ++done;
    --steps_left;
  }
  step_operator.clear();
  current_device() = before;
  carrying_out = false;
  return true;
}

// While the program's threads do other things, the partners still need this rank's next part.
void help() {
  Deferred& d = deferred();
  for (;;) {
    {
      std::unique_lock lock(d.mutex);
      d.arrived.wait(lock, [] { return steps_left > 0; });
    }
    for (const auto& steps_of : d.all()) steps_of->carry_on();
    std::this_thread::sleep_for(kBetweenTries);
  }
}

/// Waits until `ready`, or until `enough`: false.
template <class Ready, class Enough>
bool wait_for(Ready ready, Enough enough) {
  for (int round = 0; !ready(); ++round) {
    for (const auto& steps_of : deferred().all()) steps_of->carry_on();
    if (ready()) break;
    if (enough()) return false;
    if (round < 20)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(std::min(20 + round / 10, 1000)));
  }
  return true;
}

constexpr auto kNever = [] { return false; };

std::pair<int, StreamHandle> named(StreamHandle stream) {
  return {current_device(), stream == legacy_handle ? nullptr : stream};
}

/// True if the next operation of this stream comes after a step of any thread.
bool has_step_before(const std::pair<int, StreamHandle>& stream) {
  if (stream.second == kNoStream) return false;
  std::vector<std::pair<int, StreamHandle>> all;
  for (const auto& steps_of : deferred().all())
    for (const auto& one : steps_of->streams())
      if (one.first == stream.first) all.push_back(one);
  if (std::ranges::find(all, stream) != all.end()) return true;
  auto [e, lock] = locked_at_once();
  const auto blocks = [&](StreamHandle handle) {
    const Stream* const live_stream = e.find(handle);
    return live_stream && live_stream->blocking;
  };
  return std::ranges::any_of(all, [&](const auto& one) {
    return (stream.second == nullptr && blocks(one.second)) ||
           (one.second == nullptr && blocks(stream.second));
  });
}

void put(ThreadSteps& steps, StreamHandle stream, std::function<bool()> step) {
  {
    auto [e, lock] = locked_at_once();
    count_activity(e, true);
  }
  {
    const std::lock_guard lock(steps.mutex);
    steps.steps.push_back(
        {std::move(step), named(stream), std::string(current_operator()), current_call()});
    ++steps_left;
  }
  steps.carry_on();
}

/// Has the steps carried out by another thread too.
void have_helped() {
  Deferred& d = deferred();
  const std::lock_guard lock(d.mutex);
  if (!std::exchange(d.helped, true)) std::thread(help).detach();
  d.arrived.notify_one();
}

}  // namespace

bool carries_step_out() { return carrying_out; }
std::string_view operator_of_step() { return step_operator; }
bool is_deferring() {
  return steps_left.load(std::memory_order_acquire) > 0 && !carrying_out && !own_steps().empty();
}

void defer(StreamHandle stream, std::function<bool()> step) {
  ThreadSteps& mine = own_steps();
  put(mine, stream, std::move(step));
  if (mine.empty()) return;
  if (race::is_on()) settle_for_a_while();  // a race names the thread's own place
  have_helped();
}

void defer_apart(StreamHandle stream, std::function<bool()> step) {
  const auto apart = new_steps();
  put(*apart, stream, std::move(step));
  if (!apart->empty()) have_helped();
}

bool is_held(StreamHandle stream) {
  return steps_left.load(std::memory_order_acquire) > 0 && !carrying_out &&
         has_step_before(named(stream));
}

void settle() {
  const auto ready = [] { return steps_left == 0; };
  if (carrying_out || ready()) return;
  const WithoutInterpreter without_interpreter;
  wait_for(ready, kNever);
}

void settle(StreamHandle stream) {
  if (carrying_out || steps_left == 0) return;
  ThreadSteps& mine = own_steps();
  const auto is_free = [name = named(stream)] { return !has_step_before(name); };
  const auto ready = [&] { return mine.empty() && is_free(); };
  mine.carry_on();
  if (ready()) return;
  const WithoutInterpreter without_interpreter;
  const auto end =
      Clock::now() + (mine.was_waited_for(mine.waited_long_for) ? Clock::duration() : kSlowPartner);
  if (!wait_for(ready, [&] { return Clock::now() > end && is_free(); }))
    mine.note_wait(mine.waited_long_for);
}

bool settle_for_a_while() {
  if (!is_deferring()) return true;
  ThreadSteps& mine = own_steps();
  mine.carry_on();
  if (mine.empty()) return true;
  if (mine.was_waited_for(mine.waited_for)) return false;
  const WithoutInterpreter without_interpreter;
  const auto begin = Clock::now();
  if (wait_for([&mine] { return mine.empty(); }, [&] { return Clock::now() - begin > kWhile; }))
    return true;
  mine.note_wait(mine.waited_for);
  return false;
}

}  // namespace tidemark::device
