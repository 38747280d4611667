// PyTorch compiles some elementwise kernels at run time. Kernels do nothing here, so compiling is
// easy: the "binary" is a note, and a kernel's lowered name is its name expression. PyTorch would
// keep the note in the user's kernel cache, where a real GPU could find it: that cache is switched
// off.
#include <cuda_runtime_api.h>

#include <new>
#include <string>

namespace {
constexpr char binary[] = "tidemark virtual kernel";
struct Program {
  std::string source, expression;
};
[[gnu::constructor]] void switch_kernel_cache_off() { setenv("USE_PYTORCH_KERNEL_CACHE", "0", 1); }
}  // namespace

STUB(int, nvrtcVersion)(int* major, int* minor) {
  return *major = CUDART_VERSION / 1000, *minor = CUDART_VERSION % 1000 / 10, 0;
}
STUB(const char*, nvrtcGetErrorString)(int status) {
  return status == 0 ? "NVRTC_SUCCESS" : "NVRTC_ERROR";
}
STUB(int, nvrtcCreateProgram)
(Program** program, const char* source, const char*, int, const char* const*, const char* const*) {
  *program = new Program{source, ""};
  return 0;
}
STUB(int, nvrtcDestroyProgram)(Program** program) {
  delete *program;
  *program = nullptr;
  return 0;
}
STUB(int, nvrtcAddNameExpression)(Program* program, const char* expression) {
  program->expression = expression;
  return 0;
}
STUB(int, nvrtcCompileProgram)(Program*, int, const char* const*) { return 0; }
STUB(int, nvrtcGetLoweredName)(Program* program, const char*, const char** name) {
  *name = program->expression.c_str();
  return 0;
}
STUB(int, nvrtcGetCUBINSize)(Program*, size_t* size) { return *size = sizeof binary, 0; }
STUB(int, nvrtcGetCUBIN)(Program*, char* out) { return std::memcpy(out, binary, sizeof binary), 0; }
STUB(int, nvrtcGetPTXSize)(Program*, size_t* size) { return *size = sizeof binary, 0; }
STUB(int, nvrtcGetPTX)(Program*, char* out) { return std::memcpy(out, binary, sizeof binary), 0; }
STUB(int, nvrtcGetProgramLogSize)(Program*, size_t* size) { return *size = 1, 0; }
STUB(int, nvrtcGetProgramLog)(Program*, char* out) { return *out = 0, 0; }
