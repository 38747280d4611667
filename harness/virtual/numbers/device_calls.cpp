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
         look(races_detected, "tidemark_races_detected") &&
         look(begin_watched, "tidemark_races_begin_operator") &&
         look(end_watched, "tidemark_races_end_operator") &&
         look(host_access, "tidemark_races_host_access") &&
         look(allocated, "tidemark_races_allocated") && look(freed, "tidemark_races_freed") &&
         look(returned, "tidemark_races_returned") &&
         look(answer_reads, "tidemark_device_answer_reads") &&
         look(accept_unknown, "tidemark_device_accept_unknown") &&
         look(accepts_unknown, "tidemark_device_accepts_unknown") &&
         look(take_refusal, "tidemark_device_take_refusal") &&
         look(numbers_computed, "tidemark_device_numbers_computed") &&
         look(mark_known, "tidemark_device_mark_known") &&
         look(is_known, "tidemark_device_is_known") &&
         look(copy_known, "tidemark_device_copy_known") &&
         look(known_limit, "tidemark_device_known_limit") &&
         look(new_block, "tidemark_device_new_block") &&
         look(end_operator, "tidemark_device_end_operator");
}

}  // namespace tidemark::numbers
