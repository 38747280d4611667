#include "harness/virtual/recorder/own_code.h"

#include <cstdint>
#include <cstring>
#include <unordered_map>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/recorder/collector.h"
#include "harness/virtual/recorder/modules.h"
#include "harness/virtual/recorder/python_symbol.h"

namespace tidemark::recorder {
namespace {

using Thing = void*;  // PyObject*
using Vectorcall = Thing (*)(Thing callable, Thing const* arguments, std::size_t count,
                             Thing names);

// PyMethodDef, which is part of Python's stable interface.
struct Method {
  const char* name;
  Thing (*call)(Thing self, Thing const* arguments, ssize_t count, Thing names);
  int flags;
  const char* text;
};
constexpr int kArrayAndNames = 0x80 | 0x02;               // METH_FASTCALL | METH_KEYWORDS
constexpr std::size_t kOffset = ~(~std::size_t{0} >> 1);  // PY_VECTORCALL_ARGUMENTS_OFFSET

struct CallsOfPython {
  Vectorcall call = nullptr;
  Vectorcall of_functions = nullptr;  // what a function of Python has at first
  Thing (*builtin)(const Method*, Thing self, Thing module) = nullptr;
  void (*refer)(Thing) = nullptr;
  void (*let_go)(Thing) = nullptr;
  void (*fetch)(Thing*, Thing*, Thing*) = nullptr;
  void (*restore)(Thing, Thing, Thing) = nullptr;
  Thing (*item)(Thing dictionary, const char* key) = nullptr;
  int (*is_true)(Thing) = nullptr;
  Thing (*boolean)(long) = nullptr;
  void (*untrack)(Thing) = nullptr;
  Thing none = nullptr;
};
CallsOfPython py;

// Before Python 3.11 PyObject_Vectorcall is no function of its library.
struct CallsByTuple {
  Thing (*call)(Thing callable, Thing tuple, Thing dictionary) = nullptr;
  Thing (*tuple)(ssize_t) = nullptr;
  int (*set_item)(Thing tuple, ssize_t, Thing) = nullptr;  // takes the reference
  Thing (*item)(Thing tuple, ssize_t) = nullptr;
  ssize_t (*size)(Thing tuple) = nullptr;
  Thing (*dictionary)() = nullptr;
  int (*set)(Thing dictionary, Thing key, Thing value) = nullptr;
};
CallsByTuple by_tuple;

Thing call_by_tuple(Thing callable, Thing const* arguments, std::size_t count, Thing names) {
  const auto positional = static_cast<ssize_t>(count & ~kOffset);
  Thing tuple = by_tuple.tuple(positional);
  Thing dictionary = names == nullptr ? nullptr : by_tuple.dictionary();
  Thing result = nullptr;
  if (tuple != nullptr && (names == nullptr || dictionary != nullptr)) {
    for (ssize_t i = 0; i < positional; ++i) {
      py.refer(arguments[i]);
      by_tuple.set_item(tuple, i, arguments[i]);
    }
    bool good = true;
    for (ssize_t i = 0; good && names != nullptr && i < by_tuple.size(names); ++i)
      good = by_tuple.set(dictionary, by_tuple.item(names, i), arguments[positional + i]) == 0;
    if (good) result = by_tuple.call(callable, tuple, dictionary);
  }
  if (dictionary != nullptr) py.let_go(dictionary);
  if (tuple != nullptr) py.let_go(tuple);
  return result;
}

bool has_call() {
  if (look_up(py.call, "PyObject_Vectorcall")) return true;
  if (!look_up(by_tuple.call, "PyObject_Call") || !look_up(by_tuple.tuple, "PyTuple_New") ||
      !look_up(by_tuple.set_item, "PyTuple_SetItem") ||
      !look_up(by_tuple.item, "PyTuple_GetItem") || !look_up(by_tuple.size, "PyTuple_Size") ||
      !look_up(by_tuple.dictionary, "PyDict_New") || !look_up(by_tuple.set, "PyDict_SetItem"))
    return false;
  py.call = call_by_tuple;
  return true;
}

bool has_calls() {
  return py.call != nullptr ||
         (look_up(py.builtin, "PyCFunction_NewEx") && look_up(py.refer, "Py_IncRef") &&
          look_up(py.let_go, "Py_DecRef") && look_up(py.fetch, "PyErr_Fetch") &&
          look_up(py.restore, "PyErr_Restore") && look_up(py.item, "PyDict_GetItemString") &&
          look_up(py.is_true, "PyObject_IsTrue") && look_up(py.boolean, "PyBool_FromLong") &&
          look_up(py.untrack, "PyObject_GC_UnTrack") && look_up(py.none, "_Py_NoneStruct") &&
          has_call());
}

Thing eval_frame = nullptr;  // torch's set_eval_frame

/// Tidemark's own code runs while it lives, on this thread.
class OwnCode {
 public:
  OwnCode() {
    begin_own_code();
    if (eval_frame != nullptr) before_ = py.call(eval_frame, &py.none, 1, nullptr);
  }
  ~OwnCode() {
    if (before_ != nullptr) {
      Thing type = nullptr, value = nullptr, trace = nullptr;
      py.fetch(&type, &value, &trace);
      if (Thing none = py.call(eval_frame, &before_, 1, nullptr)) py.let_go(none);
      py.let_go(before_);
      py.restore(type, value, trace);
    }
    end_own_code();
  }
  OwnCode(const OwnCode&) = delete;

 private:
  Thing before_ = nullptr;
};

/// Calls a function of tidemark's; false: it has raised. None is not called.
bool run(Thing function, Thing const* arguments, std::size_t count, Thing names) {
  if (function == py.none) return true;
  const OwnCode own;
  Thing result = py.call(function, arguments, count, names);
  if (result == nullptr) return false;
  py.let_go(result);
  return true;
}

/// After the original, which may have raised: what it has raised stays.
Thing run_after(Thing result, Thing function, Thing const* arguments, std::size_t count,
                Thing names) {
  if (function == py.none) return result;
  Thing type = nullptr, value = nullptr, trace = nullptr;
  if (result == nullptr) py.fetch(&type, &value, &trace);
  const bool good = run(function, arguments, count, names);
  if (result == nullptr) {
    py.restore(type, value, trace);
  } else if (!good) {
    py.let_go(result);
    return nullptr;
  }
  return result;
}

struct Around {
  Thing original, before, after;
};
std::unordered_map<Thing, Around>& surrounded() {
  return device::immortal<std::unordered_map<Thing, Around>>();
}

Thing call_around(Thing callable, Thing const* arguments, std::size_t count, Thing names) {
  const Around one = surrounded().at(callable);
  const std::size_t positional = count & ~kOffset;
  if (!run(one.before, arguments, positional, names)) return nullptr;
  Thing result = py.call(one.original, arguments, count, names);
  return run_after(result, one.after, arguments, positional, names);
}

struct AroundModule {
  Thing original = nullptr, compiler = nullptr, outermost = nullptr, unnamed = nullptr,
        end = nullptr;
};
AroundModule of_modules;

Thing call_module(Thing, Thing const* arguments, std::size_t count, Thing names) {
  const AroundModule& all = of_modules;
  const std::size_t positional = count & ~kOffset;
  const Thing compiling = py.item(all.compiler, "_is_compiling_flag");
  if (positional == 0 || (compiling != nullptr && py.is_true(compiling) != 0))
    return py.call(all.original, arguments, count, names);
  if (modules_that_run() == 0) {
    if (!run(all.outermost, arguments, positional, names)) return nullptr;
  } else if (!enter_module(arguments[0])) {
    if (!run(all.unnamed, arguments, positional, names)) return nullptr;
  }
  Thing result = py.call(all.original, arguments, count, names);
  leave_module();
  return modules_that_run() > 0 ? result : run_after(result, all.end, nullptr, 0, nullptr);
}

/// A function of Python calls this from now on; false: its place for that is not known.
bool set_call(Thing function, Vectorcall what) {
  void (*set)(Thing, Vectorcall) = nullptr;
  if (look_up(set, "PyFunction_SetVectorcall")) return set(function, what), true;
  if (!look_up(py.of_functions, "_PyFunction_Vectorcall")) return false;
  constexpr std::size_t kFields = 24;  // of a function
  for (std::size_t at = 2; at < kFields; ++at) {
    char* const place = static_cast<char*>(function) + at * sizeof(Thing);
    Vectorcall now = nullptr;
    std::memcpy(&now, place, sizeof now);
    if (now != py.of_functions) continue;
    std::memcpy(place, &what, sizeof what);
    return true;
  }
  return false;
}

Thing kept(Thing object) {
  py.refer(object);
  return object;
}

Thing call_own(Thing function, Thing const* arguments, ssize_t count, Thing names) {
  const OwnCode own;
  return py.call(function, arguments, static_cast<std::size_t>(count), names);
}
/// `self` is an object of its own: what is surrounded may be so a second time.
Thing call_surrounded(Thing self, Thing const* arguments, ssize_t count, Thing names) {
  return call_around(self, arguments, static_cast<std::size_t>(count), names);
}
constexpr Method kSurrounded{"surrounded", call_surrounded, kArrayAndNames, nullptr};
constexpr Method kOwn{"own", call_own, kArrayAndNames, nullptr};

}  // namespace

void* set_eval_frame(void*, void* const* arguments, ssize_t count) {
  if (has_calls() && count == 1) eval_frame = kept(arguments[0]);
  return kept(py.none);
}

void* own(void*, void* const* arguments, ssize_t count) {
  if (!has_calls()) return nullptr;
  return count == 1 ? py.builtin(&kOwn, arguments[0], nullptr) : kept(py.none);
}

void* around(void*, void* const* arguments, ssize_t count) {
  if (!has_calls() || count != 4) return py.boolean(0);
  surrounded()[arguments[0]] = {kept(arguments[1]), kept(arguments[2]), kept(arguments[3])};
  return py.boolean(set_call(kept(arguments[0]), call_around) ? 1 : 0);
}

void* call_around(void*, void* const* arguments, ssize_t count) {
  if (!has_calls() || count != 4) return nullptr;
  surrounded()[kept(arguments[0])] = {kept(arguments[1]), kept(arguments[2]), kept(arguments[3])};
  return py.builtin(&kSurrounded, arguments[0], nullptr);
}

void* around_module(void*, void* const* arguments, ssize_t count) {
  if (!has_calls() || count != 6) return py.boolean(0);
  of_modules = {kept(arguments[1]), kept(arguments[2]), kept(arguments[3]), kept(arguments[4]),
                kept(arguments[5])};
  return py.boolean(set_call(kept(arguments[0]), call_module) ? 1 : 0);
}

void* untrack(void*, void* const* arguments, ssize_t count) {
  if (has_calls())
    for (ssize_t i = 0; i < count; ++i) py.untrack(arguments[i]);
  return kept(py.none);
}

void* drop_spare(void*, void* const*, ssize_t) {
  if (has_calls()) drop_spare();
  return kept(py.none);
}

}  // namespace tidemark::recorder
