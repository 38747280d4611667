// State that the functions of the virtual NVML share.
#pragma once

#include <nvml.h>

#include <atomic>
#include <string>

#pragma GCC visibility push(hidden)
/// nvmlInit calls that no nvmlShutdown has followed.
extern std::atomic<int> nvml_users;

nvmlReturn_t nvml_refuse(const char* function);
/// Into a caller's buffer of `size`, its final 0 included.
nvmlReturn_t nvml_give(const std::string& text, char* to, unsigned size);
#pragma GCC visibility pop
