// Functions of the recorder that hooks call for every module and tensor, as builtins of Python: a
// call through ctypes costs more than what most of them do.
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "harness/virtual/operators/device_calls.h"
#include "harness/virtual/recorder/backward.h"
#include "harness/virtual/recorder/modules.h"
#include "harness/virtual/recorder/own_code.h"
#include "harness/virtual/recorder/python_frames.h"
#include "harness/virtual/recorder/python_symbol.h"
#include "harness/virtual/recorder/recorder.h"

namespace {

using tidemark::recorder::look_up;
using Object = void*;
using Call = Object (*)(Object self, const Object* arguments, ssize_t count);

// PyMethodDef, which is part of Python's stable interface.
struct Definition {
  const char* name;
  Call call;
  int flags;
  const char* text;
};
constexpr int kArray = 0x80;  // METH_FASTCALL: arguments as an array

struct Python {
  Object (*function)(const Definition*, Object self, Object module) = nullptr;
  const char* (*bytes)(Object) = nullptr;
  void* (*pointer)(Object) = nullptr;
  Object (*error)() = nullptr;
  void (*fail)(Object type, const char* text) = nullptr;
  void (*refer)(Object) = nullptr;
  Object (*boolean)(long) = nullptr;
  Object (*item)(Object list, ssize_t index) = nullptr;
  ssize_t (*length)(Object list) = nullptr;
  Object (*integer)(ssize_t) = nullptr;
  ssize_t (*number)(Object) = nullptr;
  const char* (*text)(Object) = nullptr;
  Object* type_error = nullptr;
  Object none = nullptr;
};
Python python;

bool has_functions() {
  return look_up(python.function, "PyCFunction_NewEx") &&
         look_up(python.bytes, "PyBytes_AsString") && look_up(python.pointer, "PyLong_AsVoidPtr") &&
         look_up(python.error, "PyErr_Occurred") && look_up(python.fail, "PyErr_SetString") &&
         look_up(python.refer, "Py_IncRef") && look_up(python.boolean, "PyBool_FromLong") &&
         look_up(python.type_error, "PyExc_TypeError") && look_up(python.none, "_Py_NoneStruct") &&
         look_up(python.item, "PyList_GetItem") && look_up(python.length, "PyList_Size") &&
         look_up(python.integer, "PyLong_FromSsize_t") &&
         look_up(python.number, "PyLong_AsSsize_t") && look_up(python.text, "PyUnicode_AsUTF8");
}

Object none() {
  python.refer(python.none);
  return python.none;
}

// False, with an error of Python's, if the number of arguments is another.
bool has(ssize_t count, ssize_t wanted, const char* signature) {
  if (count != wanted) python.fail(*python.type_error, signature);
  return count == wanted;
}

// Places of two fields in a tensor of Python, the type and the TensorImpl, and the types that have
// them there.
struct TensorLayout {
  std::size_t type = 0, implementation = 0;  // bytes; 0: not known
  std::vector<const void*> types;
};
TensorLayout tensor_layout;

const void* word(Object object, std::size_t at) {
  const void* value = nullptr;
  std::memcpy(&value, static_cast<const char*>(object) + at, sizeof value);
  return value;
}

// The place in a small object where a pointer is; 0: nowhere.
std::size_t place_of(Object object, const void* pointer) {
  for (std::size_t at = sizeof(void*); at < 8 * sizeof(void*); at += sizeof(void*))
    if (word(object, at) == pointer) return at;
  return 0;
}

Object tensor_types(Object, const Object* arguments, ssize_t count) {
  if (count < 3) return has(count, 3, "tensor_types(tensor, its _cdata, *types)"), nullptr;
  const void* implementation = python.pointer(arguments[1]);
  if (implementation == nullptr) return none();
  tensor_layout = {place_of(arguments[0], arguments[2]), place_of(arguments[0], implementation),
                   std::vector<const void*>(arguments + 2, arguments + count)};
  return none();
}

// Calls label(implementation, name) for each tensor from the first one on, until one is of another
// type, or `label` is false; its index.
Object each_tensor(const Object* arguments, auto label) {
  const ssize_t first = python.number(arguments[3]);
  const ssize_t end = first < 0 ? -1 : python.length(arguments[2]);
  if (end < 0) return nullptr;
  const TensorLayout& at = tensor_layout;
  for (ssize_t i = first; i < end; ++i) {
    Object tensor = python.item(arguments[2], i);
    if (tensor == python.none) continue;
    if (at.type == 0 || at.implementation == 0 ||
        std::ranges::find(at.types, word(tensor, at.type)) == at.types.end())
      return python.integer(i);
    const Object name_object = python.item(arguments[1], i);
    const char* name = name_object == nullptr ? nullptr : python.bytes(name_object);
    if (name == nullptr) return nullptr;
    if (!label(*static_cast<const c10::TensorImpl*>(word(tensor, at.implementation)), name))
      return python.integer(i);
  }
  return python.integer(end);
}

// False where the tensor has no memory of its own.
bool label(const c10::TensorImpl& tensor, const char* kind, const char* name) {
  if (tensor.is_cuda() && !tensor.has_storage()) return false;
  const void* address = tidemark::recorder::address_on_gpu(tensor);
  if (address != nullptr) tidemark_record_label(address, kind, name);
  return true;
}

Object labels(Object, const Object* arguments, ssize_t count) {
  if (!has(count, 4, "labels(kind, names, tensors, first)")) return nullptr;
  const char* kind = python.bytes(arguments[0]);
  if (kind == nullptr) return nullptr;
  return each_tensor(arguments, [&](const c10::TensorImpl& tensor, const char* name) {
    return label(tensor, kind, name);
  });
}

// Python would make an object of each gradient, which lives as long as the gradient.
Object gradient_labels(Object, const Object* arguments, ssize_t count) {
  if (!has(count, 4, "gradient_labels(kind, names, parameters, first)")) return nullptr;
  const char* kind = python.bytes(arguments[0]);
  if (kind == nullptr) return nullptr;
  return each_tensor(arguments, [&](const c10::TensorImpl& parameter, const char* name) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) return true;
    return gradient.layout() == c10::kStrided &&
           !gradient.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python) &&
           label(*gradient.unsafeGetTensorImpl(), kind, name);
  });
}

// Python would make an object of a storage, which lives as long as the memory, and of a tensor that
// a graph has saved, likewise.
Object storage_of(const c10::TensorImpl* tensor) {
  const void* memory = nullptr;
  try {
    if (tensor != nullptr && tensor->has_storage() &&
        tensor->unsafe_storage().device().is_cuda())  // those of fake tensors are of meta
      memory = tensor->unsafe_storage().data();
  } catch (const c10::Error&) {  // a tensor without memory of its own
  }
  return python.integer(reinterpret_cast<ssize_t>(memory));
}

Object storage(Object, const Object* arguments, ssize_t count) {
  if (!has(count, 1, "storage(tensor)")) return nullptr;
  const std::size_t at = tensor_layout.implementation;
  return storage_of(at == 0 ? nullptr
                            : static_cast<const c10::TensorImpl*>(word(arguments[0], at)));
}

// A SavedTensor of Python is an object of pybind11 that refers to a SavedVariable, which begins
// with its tensor (torch/csrc/autograd/saved_variable.h, 2.4 to 2.15).
const c10::TensorImpl* saved_in(Object object) {
  const void* const variable = word(object, 2 * sizeof(void*));
  return variable == nullptr ? nullptr : *static_cast<const c10::TensorImpl* const*>(variable);
}

Object saved_storage(Object, const Object* arguments, ssize_t count) {
  return has(count, 1, "saved_storage(saved)") ? storage_of(saved_in(arguments[0])) : nullptr;
}

Object is_saved(Object, const Object* arguments, ssize_t count) {
  if (!has(count, 2, "is_saved(saved, tensor)")) return nullptr;
  const std::size_t at = tensor_layout.implementation;
  return python.boolean(at != 0 && saved_in(arguments[0]) == word(arguments[1], at) ? 1 : 0);
}

Object name_module(Object, const Object* arguments, ssize_t count) {
  if (!has(count, 2, "name_module(module, path)")) return nullptr;
  const char* path = python.bytes(arguments[1]);
  if (path == nullptr) return nullptr;
  tidemark::recorder::name_module(arguments[0], path);
  return none();
}

Object forget_module(Object, const Object* arguments, ssize_t count) {
  if (!has(count, 1, "forget_module(id)")) return nullptr;
  const void* module = python.pointer(arguments[0]);
  if (module == nullptr && python.error() != nullptr) return nullptr;
  tidemark::recorder::forget_module(module);
  return none();
}

Object entered(Object, const Object* arguments, ssize_t count) {
  if (!has(count, 1, "entered(module)")) return nullptr;
  if (tidemark::recorder::modules_that_run() == 0) return none();
  return python.boolean(tidemark::recorder::enter_module(arguments[0]) ? 1 : 0);
}

Object enter(Object, const Object* arguments, ssize_t count) {
  if (!has(count, 1, "enter(path)")) return nullptr;
  const char* path = python.bytes(arguments[0]);
  if (path == nullptr) return nullptr;
  tidemark::recorder::enter_module(std::string_view(path));
  return none();
}

Object left(Object, const Object*, ssize_t count) {
  if (!has(count, 0, "left()")) return nullptr;
  tidemark::recorder::leave_module();
  return python.boolean(tidemark::recorder::modules_that_run() > 0 ? 1 : 0);
}

Object phase(Object, const Object* arguments, ssize_t count) {
  if (!has(count, 1, "phase(name)")) return nullptr;
  const char* name = python.text(arguments[0]);
  return name == nullptr ? nullptr : python.integer(tidemark_record_phase(name));
}

Object phase_end(Object, const Object* arguments, ssize_t count) {
  if (!has(count, 1, "phase_end(name)")) return nullptr;
  const char* name = python.text(arguments[0]);
  if (name == nullptr) return nullptr;
  tidemark_record_phase_end(name);
  return none();
}

Object device_now(Object, const Object*, ssize_t count) {
  if (!has(count, 0, "device_now()")) return nullptr;
  return python.integer(tidemark::operators::device.now());
}

Object note_frames(Object, const Object*, ssize_t) {
  tidemark::recorder::note_frames();
  return none();
}

Object drop_frames(Object, const Object*, ssize_t) {
  tidemark::recorder::drop_frames();
  return none();
}

constexpr std::array<Definition, 23> kDefinitions{{
    {"tensor_types", tensor_types, kArray,
     "tensor_types(tensor, its _cdata, *types): labels() knows tensors of these types, of which "
     "the "
     "first is that of the tensor"},
    {"labels", labels, kArray,
     "labels(kind: bytes, names: list[bytes], tensors: list, first: int) -> the index of the first "
     "tensor, from that one on, of another type or without memory of its own (sparse); None has no "
     "label"},
    {"gradient_labels", gradient_labels, kArray,
     "gradient_labels(kind, names, parameters, first): likewise, of their gradients"},
    {"storage", storage, kArray, "storage(tensor) -> where its memory on a GPU begins, or 0"},
    {"saved_storage", saved_storage, kArray, "saved_storage(SavedTensor) -> likewise"},
    {"is_saved", is_saved, kArray, "is_saved(SavedTensor, tensor) -> whether it is that tensor"},
    {"name_module", name_module, kArray, "name_module(module, path: bytes)"},
    {"forget_module", forget_module, kArray, "forget_module(id: int)"},
    {"entered", entered, kArray,
     "entered(module): None: it would be the outermost one of this thread; False: it has no name; "
     "True: it runs now"},
    {"enter", enter, kArray, "enter(path: bytes)"},
    {"left", left, kArray, "left() -> whether another module runs on this thread"},
    {"phase", phase, kArray, "phase(name: str) -> steps and repetitions until now"},
    {"phase_end", phase_end, kArray, "phase_end(name: str)"},
    {"device_now", device_now, kArray, "device_now() -> nanoseconds of the device's clock"},
    {"set_eval_frame", tidemark::recorder::set_eval_frame, kArray,
     "set_eval_frame(torch's function of that name)"},
    {"own", tidemark::recorder::own, kArray,
     "own(function) -> a builtin that calls it as code of tidemark's"},
    {"around", tidemark::recorder::around, kArray,
     "around(function, original, before, after) -> whether it could be done"},
    {"call_around", tidemark::recorder::call_around, kArray,
     "call_around(a new object, original, before, after) -> a builtin that does so"},
    {"around_module", tidemark::recorder::around_module, kArray,
     "around_module(function, original, compiler, outermost, unnamed, end) -> likewise"},
    {"untrack", tidemark::recorder::untrack, kArray, "untrack(*objects)"},
    {"drop_spare", tidemark::recorder::drop_spare, kArray,
     "drop_spare(): Python has no freed object to use again"},
    {"note_frames", note_frames, kArray, "note_frames(): before frames are asked for"},
    {"drop_frames", drop_frames, kArray, "drop_frames(): afterwards"},
}};

}  // namespace

extern "C" [[gnu::visibility("default")]] void* tidemark_record_builtin(const char* name) {
  const auto* of_name = std::ranges::find(kDefinitions, std::string_view(name), &Definition::name);
  if (of_name == kDefinitions.end() || !has_functions()) return nullptr;
  return python.function(of_name, nullptr, nullptr);
}
