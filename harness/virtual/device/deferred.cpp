#include "harness/virtual/device/deferred.h"

#include <sched.h>

#include <condition_variable>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/interpreter.h"
#include "harness/virtual/race/detector.h"

namespace tidemark::device {
namespace {

using Clock = std::chrono::steady_clock;
// The answers to a program's queries, and what its watchdogs have seen, are the same in every run
// where the partners come in this time. A program that orders its ranks by other means waits for it
// once a collective.
constexpr std::chrono::seconds kWhile{5};
constexpr auto kBetweenTries = std::chrono::milliseconds(1);  // of the thread that helps

struct Step {
  std::function<bool()> run;
  int device;
  std::string op;
};

struct Deferred {
  std::mutex turn;   // held while a step is carried out
  std::mutex mutex;  // of what follows
  std::deque<Step> steps;
  std::uint64_t done = 0;                   // steps
  std::optional<std::uint64_t> waited_for;  // a while, for the step of this number
  std::condition_variable arrived;
  bool helped = false;
};
Deferred& deferred() { return immortal<Deferred>(); }

thread_local bool carrying_out = false;
thread_local std::string step_operator;

/// Carries out the steps that can be. False: another thread does.
bool carry_on() {
  Deferred& d = deferred();
  const std::unique_lock turn(d.turn, std::try_to_lock);
  if (!turn) return false;
  carrying_out = true;
  const int before = current_device();
  while (steps_left > 0) {
    Step* first = nullptr;
    {
      const std::lock_guard lock(d.mutex);
      first = &d.steps.front();
    }
    current_device() = first->device;
    step_operator = first->op;
    if (!first->run()) break;
    const std::lock_guard lock(d.mutex);
    d.steps.pop_front();
    ++d.done;
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
      d.arrived.wait(lock, [&d] { return !d.steps.empty(); });
    }
    carry_on();
    std::this_thread::sleep_for(kBetweenTries);
  }
}

template <class Enough>
bool wait_unless(Enough enough) {
  for (int round = 0; steps_left > 0; ++round) {
    carry_on();
    if (steps_left == 0) break;
    if (enough()) return false;
    if (round < 20)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(std::min(20 + round / 10, 1000)));
  }
  return true;
}

}  // namespace

bool carries_step_out() { return carrying_out; }
std::string_view operator_of_step() { return step_operator; }
bool is_deferring() { return steps_left > 0 && !carrying_out; }

void defer(std::function<bool()> step) {
  Deferred& d = deferred();
  {
    auto& e = engine();
    const std::lock_guard lock(e.mutex);
    count_activity(e, true);
  }
  {
    const std::lock_guard lock(d.mutex);
    d.steps.push_back({std::move(step), current_device(), std::string(current_operator())});
    ++steps_left;
  }
  carry_on();
  if (steps_left == 0) return;
  if (race::is_on()) settle_for_a_while();  // a race names the thread's own place
  const std::lock_guard lock(d.mutex);
  if (!std::exchange(d.helped, true)) std::thread(help).detach();
  d.arrived.notify_one();
}

void settle() {
  if (!is_deferring()) return;
  carry_on();
  if (steps_left == 0) return;
  const WithoutInterpreter without_interpreter;
  wait_unless([] { return false; });
}

bool settle_for_a_while() {
  if (!is_deferring()) return true;
  carry_on();
  if (steps_left == 0) return true;
  Deferred& d = deferred();
  {
    const std::lock_guard lock(d.mutex);
    if (d.waited_for == d.done) return false;
  }
  const WithoutInterpreter without_interpreter;
  const auto begin = Clock::now();
  if (wait_unless([&] { return Clock::now() - begin > kWhile; })) return true;
  const std::lock_guard lock(d.mutex);
  d.waited_for = d.done;
  return false;
}

}  // namespace tidemark::device
