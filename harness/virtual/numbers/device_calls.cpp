#include "harness/virtual/numbers/device_calls.h"

#include <dlfcn.h>

namespace tidemark::numbers {

bool DeviceCalls::find() {
  const auto look = [](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
    return function != nullptr;
  };
  return look(suspend_data, "tidemark_device_suspend_data") &&
         look(begin_operator, "tidemark_device_begin_operator") &&
         look(answer_reads, "tidemark_device_answer_reads") &&
         look(end_operator, "tidemark_device_end_operator");
}

}  // namespace tidemark::numbers
