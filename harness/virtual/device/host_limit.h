// The end of a process to which the host refuses what a GPU would have given: an error of the host,
// never one of the device, which a program takes for its own lack of memory.
#pragma once

#include <cstddef>

#pragma GCC visibility push(default)
namespace tidemark::device {

/// Says what the host has refused (`what`: "address space for an allocation"), with the system's
/// reason in errno, leaves the cause for who started the process, and ends it with exit code 3.
[[noreturn]] void host_refuses(const char* what, std::size_t bytes);

}  // namespace tidemark::device
#pragma GCC visibility pop
