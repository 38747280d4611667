// Answer of a CUDA driver to a question that is asked in a process of its own: a driver that hangs
// or dies must not take this one along, and what it loads blocks no other process.
#pragma once

#include <filesystem>

namespace tidemark {

struct DriverAnswer {
  bool asked = false;  // false: the file is no driver, or one of another architecture
  int error = 0;       // CUresult; kSilent (cuda_facts.h) where the driver did not answer in time
  int version = 0;     // the newest CUDA that it can serve
  int devices = 0;
};
/// Waits half a minute at most.
DriverAnswer ask_driver(const std::filesystem::path& library);

}  // namespace tidemark
