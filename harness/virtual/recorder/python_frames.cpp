#include "harness/virtual/recorder/python_frames.h"

#include <cstring>

#include "harness/virtual/recorder/python_symbol.h"

namespace tidemark::recorder {
namespace {

struct Python {
  void* (*this_state)() = nullptr;
  int (*line)(void* code, int instruction) = nullptr;
  std::int64_t (*length)(void* text) = nullptr;
  std::uint32_t (*letter)(void* text, std::int64_t index) = nullptr;
  const void* code_type = nullptr;
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
  const char* frame = field<const char*>(state, at.state_frame);
  if (at.cframe_frame >= 0 && frame != nullptr) frame = field<const char*>(frame, at.cframe_frame);
  for (; frame != nullptr; frame = field<const char*>(frame, at.frame_back)) {
    const char* code = untagged(field<const char*>(frame, at.frame_code));
    // Between two runs of the interpreter lie frames of no code.
    if (code == nullptr || field<const void*>(code, sizeof(void*)) != python.code_type) continue;
    const std::int64_t instruction =
        at.index_scale == 0
            ? field<const char*>(frame, at.frame_instruction) - (code + at.code_begin)
            : field<std::int32_t>(frame, at.frame_instruction) * at.index_scale;
    places.push_back({code, instruction, field<const void*>(code, at.code_file),
                      field<const void*>(code, at.code_lines)});
  }
}

PythonLine line_of(const PythonPlace& place) {
  const PythonLayout& at = python.layout;
  auto* code = const_cast<char*>(place.code);
  return {text_of(field<const char*>(place.code, at.code_name)),
          text_of(field<const char*>(place.code, at.code_file)),
          python.line(code, static_cast<int>(place.instruction))};
}

}  // namespace tidemark::recorder
