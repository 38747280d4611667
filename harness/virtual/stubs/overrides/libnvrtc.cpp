// PyTorch compiles some elementwise kernels at run time. Kernels do nothing here, so compiling is
// easy: the "binary" is a note, and a kernel's lowered name is its name expression. PyTorch would
// keep the note in the user's kernel cache, where a real GPU could find it: that cache is switched
// off.
#include <cuda_runtime_api.h>

#include <new>
#include <string>

#include "harness/virtual/device/handles.h"

namespace {
constexpr char binary[] = "tidemark virtual kernel";
enum Status { success = 0, invalid_input = 3, invalid_program = 4 };  // nvrtcResult

struct Program {
  std::string source, expression;
};
bool made(const Program* program) { return tidemark::device::handles<Program>().has(program); }

/// Writes what `answer` returns to `to`.
template <class T, class Answer>
int give(const Program* program, T* to, Answer answer) {
  if (!made(program)) return invalid_program;
  if (!to) return invalid_input;
  *to = answer();
  return success;
}
int give_binary(const Program* program, char* to) {
  if (!made(program)) return invalid_program;
  if (!to) return invalid_input;
  std::memcpy(to, binary, sizeof binary);
  return success;
}
[[gnu::constructor]] void switch_kernel_cache_off() { setenv("USE_PYTORCH_KERNEL_CACHE", "0", 1); }
}  // namespace

STUB(int, nvrtcVersion)(int* major, int* minor) {
  if (!major || !minor) return invalid_input;
  return *major = CUDART_VERSION / 1000, *minor = CUDART_VERSION % 1000 / 10, success;
}
STUB(const char*, nvrtcGetErrorString)(int status) {
  return status == success ? "NVRTC_SUCCESS" : "NVRTC_ERROR";
}
STUB(int, nvrtcCreateProgram)
(Program** program, const char* source, const char*, int, const char* const*, const char* const*) {
  if (!program || !source) return invalid_input;
  *program = tidemark::device::handles<Program>().make({source, ""});
  return success;
}
STUB(int, nvrtcDestroyProgram)(Program** program) {
  if (!program || !tidemark::device::handles<Program>().destroy(*program)) return invalid_program;
  *program = nullptr;
  return success;
}
STUB(int, nvrtcAddNameExpression)(Program* program, const char* expression) {
  if (!made(program)) return invalid_program;
  if (!expression) return invalid_input;
  program->expression = expression;
  return success;
}
STUB(int, nvrtcCompileProgram)(Program* program, int, const char* const*) {
  return made(program) ? success : invalid_program;
}
STUB(int, nvrtcGetLoweredName)(Program* program, const char*, const char** name) {
  return give(program, name, [&] { return program->expression.c_str(); });
}
STUB(int, nvrtcGetCUBINSize)(Program* program, size_t* size) {
  return give(program, size, [] { return sizeof binary; });
}
STUB(int, nvrtcGetCUBIN)(Program* program, char* out) { return give_binary(program, out); }
STUB(int, nvrtcGetPTXSize)(Program* program, size_t* size) {
  return give(program, size, [] { return sizeof binary; });
}
STUB(int, nvrtcGetPTX)(Program* program, char* out) { return give_binary(program, out); }
STUB(int, nvrtcGetProgramLogSize)(Program* program, size_t* size) {
  return give(program, size, [] { return size_t{1}; });
}
STUB(int, nvrtcGetProgramLog)(Program* program, char* out) {
  return give(program, out, [] { return '\0'; });
}
