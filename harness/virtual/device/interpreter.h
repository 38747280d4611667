// Python's lock, given up while this thread waits for others, which may need it.
#pragma once

#include <dlfcn.h>

namespace tidemark::device {

struct WithoutInterpreter {
  using Save = void* (*)();
  using Restore = void (*)(void*);
  using Check = int (*)();
  void* state = nullptr;

  WithoutInterpreter() {
    static const auto runs = reinterpret_cast<Check>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
    static const auto holds = reinterpret_cast<Check>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
    static const auto save = reinterpret_cast<Save>(dlsym(RTLD_DEFAULT, "PyEval_SaveThread"));
    if (runs && holds && save && runs() && holds()) state = save();
  }
  ~WithoutInterpreter() {
    static const auto restore =
        reinterpret_cast<Restore>(dlsym(RTLD_DEFAULT, "PyEval_RestoreThread"));
    if (state) restore(state);
  }
  WithoutInterpreter(const WithoutInterpreter&) = delete;
};

}  // namespace tidemark::device
