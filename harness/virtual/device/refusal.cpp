#include "harness/virtual/device/refusal.h"

#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "harness/virtual/device/control.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/names.h"

namespace tidemark::device {
namespace {

thread_local int accepted = 0;
thread_local bool refused = false;
std::atomic<bool> numbers_are_computed{false};

std::string in_operator() {
  const std::string_view name = current_operator();
  return name.empty() ? "" : " in " + std::string(name);
}

}  // namespace

void say_once(const std::string& text) {
  static std::mutex mutex;
  static auto& said = *new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (said.insert(text).second) std::fprintf(stderr, "tidemark: %s\n", text.c_str());
}

std::string kernel_name(std::string_view mangled) {
  std::string name = readable(std::string(mangled));
  if (name.starts_with("void ")) name.erase(0, 5);
  constexpr std::size_t kMost = 120;
  return name.size() <= kMost ? name : name.substr(0, kMost) + "...";
}

bool admits_kernel(std::string_view name) {
  if (!data_moves()) return true;
  say_once(
      "kernel " + kernel_name(name) + in_operator() +
      (numbers_are_computed
           ? " is launched outside the operators that mode math computes, so its results would "
             "not exist: modes known and shapes run it without them"
           : " is launched in mode math without the operator layer, so its results would not "
             "exist: load the layer first (harness/virtual/README.md), or run in shapes"));
  refused = true;
  return false;
}

bool take_refusal() { return std::exchange(refused, false); }

bool accepts_unknown() { return accepted > 0 || engine().unknown_accepted; }

cudaError_t refuse_read(std::size_t bytes) {
  const Data data = engine().data;
  say_once(
      "the copy of " + std::to_string(bytes) + " bytes of device memory to the host" +
      in_operator() + " is refused, because no kernel computed them" +
      (data == Data::known ? " (mode known): the program's control flow depends on them"
       : data == Data::all
           ? ": mode math has no numbers for this operator, run it in shapes"
           : " (mode shapes): run in math with the operator layer (harness/virtual/README.md), or "
             "with TIDEMARK_UNKNOWN=nan to read 0xFF bytes (NaN, -1, True)"));
  return cudaErrorNotSupported;
}

}  // namespace tidemark::device

using namespace tidemark::device;

void tidemark_device_numbers_computed(int on) { numbers_are_computed = on != 0; }
void tidemark_device_accept_unknown(int delta) { accepted += delta; }
int tidemark_device_accepts_unknown(void) { return accepts_unknown(); }
int tidemark_device_take_refusal(void) {
  const bool taken = take_refusal();
  if (taken && peek_last_error() == cudaErrorNotSupported) take_last_error();
  return taken;
}
