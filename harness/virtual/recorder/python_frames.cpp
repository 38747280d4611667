#include "harness/virtual/recorder/python_frames.h"

#include <cstring>
#include <unordered_map>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/recorder/python_symbol.h"

namespace tidemark::recorder {
namespace {

struct Python {
  void* (*this_state)() = nullptr;
  int (*line)(void* code, int instruction) = nullptr;
  std::int64_t (*length)(void* text) = nullptr;
  std::uint32_t (*letter)(void* text, std::int64_t index) = nullptr;
  const void* code_type = nullptr;
  void* (*this_interpreter)() = nullptr;
  char* (*first_thread)(void* interpreter) = nullptr;
  char* (*next_thread)(void* state) = nullptr;
  void (*let_go)(void* object) = nullptr;
  PythonLayout layout{};
};
Python python;
bool is_set = false;

template <class T>
T field(const char* object, std::int64_t offset) {
  T value;
  std::memcpy(&value, object + offset, sizeof value);
  return value;
}

// A pointer may carry a tag in its lowest bits.
const char* untagged(const char* pointer) {
  return reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(pointer) &
                                       ~std::uintptr_t{7});
}

// Calls see(frame) for each frame of a thread, innermost first.
void each_frame(const char* state, auto see) {
  const PythonLayout& at = python.layout;
  const char* frame = field<const char*>(state, at.state_frame);
  if (at.cframe_frame >= 0 && frame != nullptr) frame = field<const char*>(frame, at.cframe_frame);
  for (; frame != nullptr; frame = field<const char*>(frame, at.frame_back)) see(frame);
}

// Of its code; null between two runs of the interpreter, where lie frames of no code.
const char* code_of(const char* frame) {
  const char* code = untagged(field<const char*>(frame, python.layout.frame_code));
  return code != nullptr && field<const void*>(code, sizeof(void*)) == python.code_type ? code
                                                                                        : nullptr;
}

/// By frame: whether its pointers at frame_object and frame_variables are null.
struct Empty {
  bool object = false, variables = false;
};
std::unordered_map<const char*, Empty>& noted() {
  return device::immortal<std::unordered_map<const char*, Empty>>();
}

bool is_null(const char* frame, std::int64_t at) {
  return at >= 0 && field<const void*>(frame, at) == nullptr;
}

// Lets go of the object there, if the frame alone refers to it.
void drop(const char* frame, std::int64_t at) {
  char* object = field<char*>(frame, at);
  if (object == nullptr || field<std::int32_t>(object, 0) != 1) return;  // its references
  const void* const none = nullptr;
  std::memcpy(const_cast<char*>(frame) + at, &none, sizeof none);
  python.let_go(object);
}

bool has_threads() {
  return is_set && look_up(python.this_interpreter, "PyInterpreterState_Get") &&
         look_up(python.first_thread, "PyInterpreterState_ThreadHead") &&
         look_up(python.next_thread, "PyThreadState_Next") && look_up(python.let_go, "Py_DecRef");
}

void each_frame_of_all(auto see) {
  if (!has_threads()) return;
  for (char* state = python.first_thread(python.this_interpreter()); state != nullptr;
       state = python.next_thread(state))
    each_frame(state, [&](const char* frame) {
      if (code_of(frame) != nullptr) see(frame);
    });
}

void append(std::string& text, std::uint32_t letter) {
  const auto tail = [&](int shift) {
    text += static_cast<char>(0x80U | ((letter >> shift) & 0x3FU));
  };
  if (letter < 0x80) {
    text += static_cast<char>(letter);
  } else if (letter < 0x800) {
    text += static_cast<char>(0xC0U | (letter >> 6U)), tail(0);
  } else if (letter < 0x10000) {
    text += static_cast<char>(0xE0U | (letter >> 12U)), tail(6), tail(0);
  } else {
    text += static_cast<char>(0xF0U | (letter >> 18U)), tail(12), tail(6), tail(0);
  }
}

// PyUnicode_AsUTF8 may allocate, which needs Python's lock.
std::string text_of(const char* unicode) {
  std::string text;
  auto* object = const_cast<char*>(unicode);
  const std::int64_t length = python.length(object);
  for (std::int64_t i = 0; i < length; ++i) append(text, python.letter(object, i));
  return text;
}

}  // namespace

bool set_python_layout(const PythonLayout& layout) {
  is_set = look_up(python.this_state, "PyGILState_GetThisThreadState") &&
           look_up(python.line, "PyCode_Addr2Line") &&
           look_up(python.length, "PyUnicode_GetLength") &&
           look_up(python.letter, "PyUnicode_ReadChar") && look_up(python.code_type, "PyCode_Type");
  python.layout = layout;
  return is_set;
}

void python_places(std::vector<PythonPlace>& places) {
  places.clear();
  if (!is_set) return;
  const PythonLayout& at = python.layout;
  const auto* state = static_cast<const char*>(python.this_state());
  if (state == nullptr) return;
  each_frame(state, [&](const char* frame) {
    const char* code = code_of(frame);
    if (code == nullptr) return;
    const std::int64_t instruction =
        at.index_scale == 0
            ? field<const char*>(frame, at.frame_instruction) - (code + at.code_begin)
            : field<std::int32_t>(frame, at.frame_instruction) * at.index_scale;
    places.push_back({code, instruction, field<const void*>(code, at.code_file),
                      field<const void*>(code, at.code_lines)});
  });
}

void note_frames() {
  const PythonLayout& at = python.layout;
  noted().clear();
  each_frame_of_all([&](const char* frame) {
    noted()[frame] = {is_null(frame, at.frame_object), is_null(frame, at.frame_variables)};
  });
}

void drop_frames() {
  const PythonLayout& at = python.layout;
  each_frame_of_all([&](const char* frame) {  // of other threads some have ended since
    const auto before = noted().find(frame);
    if (before == noted().end()) return;
    if (before->second.object) drop(frame, at.frame_object);
    if (before->second.variables) drop(frame, at.frame_variables);
  });
}

PythonLine line_of(const PythonPlace& place) {
  const PythonLayout& at = python.layout;
  auto* code = const_cast<char*>(place.code);
  return {text_of(field<const char*>(place.code, at.code_name)),
          text_of(field<const char*>(place.code, at.code_file)),
          python.line(code, static_cast<int>(place.instruction))};
}

}  // namespace tidemark::recorder
