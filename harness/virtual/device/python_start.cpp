#include "harness/virtual/device/python_start.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "harness/virtual/device/symbol.h"

namespace tidemark::device {
namespace {

template <class Function>
Function python_function(const char* name) {
  return Symbol{dlsym(RTLD_DEFAULT, name)};
}

// The folder of tidemark's Python modules, beside this library.
std::string python_modules() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&python_modules), &self) == 0) return "";
  return std::filesystem::path(self.dli_fname).parent_path() / "python";
}

}  // namespace

void start_in_python() {
  if (std::getenv("TIDEMARK_EXEC") == nullptr) return;
  const auto is_initialized = python_function<int (*)()>("Py_IsInitialized");
  const auto take_lock = python_function<int (*)()>("PyGILState_Ensure");
  const auto give_lock = python_function<void (*)(int)>("PyGILState_Release");
  const auto run = python_function<int (*)(const char*, void*)>("PyRun_SimpleStringFlags");
  if (is_initialized == nullptr || take_lock == nullptr || give_lock == nullptr || run == nullptr ||
      is_initialized() == 0)
    return;
  const std::string code =
      "exec('''import sys\n"
      "if 'tidemark_exec' not in sys.modules:\n"
      "    sys.path.insert(0, place)\n"
      "    try:\n"
      "        import tidemark_exec\n"
      "        tidemark_exec.wait_for_torch()\n"
      "    finally:\n"
      "        sys.path.remove(place)\n"
      "''', {'place': r'''" +
      python_modules() + "'''})";
  const int lock = take_lock();
  run(code.c_str(), nullptr);
  give_lock(lock);
}

}  // namespace tidemark::device
