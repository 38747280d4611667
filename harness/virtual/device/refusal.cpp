#include "harness/virtual/device/refusal.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "harness/virtual/device/control.h"
#include "harness/virtual/device/device.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/failure.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/names.h"

namespace tidemark::device {
namespace {

constexpr std::size_t kMostWords = 1000;
struct Refusals {
  std::mutex mutex;
  std::set<std::string> words;
};
Refusals& refusals() { return immortal<Refusals>(); }

thread_local int accepted = 0;
thread_local bool refused = false;
std::atomic<bool> numbers_are_computed{false};

std::string in_operator() {
  const std::string_view name = current_operator();
  return name.empty() ? "" : " in " + std::string(name);
}

/// Advice for a program without the library's functions; "" if there is none.
std::string_view advice_about(std::string_view library) {
  if (library.starts_with("libcudnn"))
    return "torch.backends.cudnn.enabled = False, in the program, takes PyTorch's own kernels in "
           "place of cuDNN's; the memory is then that of those kernels";
  return "";
}

/// The words of CUDA, and of its libraries (CUBLAS_STATUS_NOT_SUPPORTED).
void note_not_supported() {
  note_refusal(error_text(cudaErrorNotSupported));
  note_refusal("_NOT_SUPPORTED");
}

}  // namespace

void note_refusal(const std::string& words) {
  Refusals& all = refusals();
  const std::lock_guard lock(all.mutex);
  if (all.words.size() < kMostWords) all.words.insert(words);
}

void say_once(const std::string& text) {
  static std::mutex mutex;
  static auto& printed = *new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (printed.insert(text).second) std::fprintf(stderr, "tidemark: %s\n", text.c_str());
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
  note_not_supported();
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
  note_not_supported();
  return cudaErrorNotSupported;
}

void not_supported(const char* library, const char* function) {
  note_not_supported();
  say_once(std::string(function) + " (" + library +
           ") is not modelled by the virtual device; it answers \"not supported\"");
  const std::string_view advice = advice_about(library);
  if (!advice.empty()) say_once(std::string(advice));
}

}  // namespace tidemark::device

using namespace tidemark::device;

void tidemark_device_note_refusal(const char* words) { note_refusal(words); }
int tidemark_device_is_refusal(const char* error) {
  Refusals& all = refusals();
  const std::lock_guard lock(all.mutex);
  const std::string_view text(error);
  return std::any_of(all.words.begin(), all.words.end(),
                     [&](const std::string& words) { return text.find(words) != text.npos; });
}

void tidemark_device_numbers_computed(int on) { numbers_are_computed = on != 0; }
void tidemark_device_accept_unknown(int delta) { accepted += delta; }
int tidemark_device_accepts_unknown(void) { return accepts_unknown(); }
int tidemark_device_take_refusal(void) {
  const bool taken = take_refusal();
  if (taken && peek_last_error() == cudaErrorNotSupported) take_last_error();
  return taken;
}
