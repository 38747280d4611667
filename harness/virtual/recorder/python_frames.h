// Python's frames of the calling thread, read without Python's lock: the allocator's events come on
// threads that have given it up, below the allocator's own lock, where no thread may wait for it. A
// thread that is inside a call from Python leaves its frames as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tidemark::recorder {

/// Places of fields in bytes, as ../../exec/python/tidemark_frames.py finds them in a running
/// Python, whose releases differ.
struct PythonLayout {
  std::int64_t state_frame;   // of PyThreadState: the pointer to the innermost frame, or
  std::int64_t cframe_frame;  // to a structure with that pointer here; -1: the former
  std::int64_t frame_code, frame_back, frame_instruction;
  std::int64_t index_scale;  // bytes of code per unit of frame_instruction, an int32; 0: it is a
                             // pointer into the code, which begins at
  std::int64_t code_begin;   // of the code object
  std::int64_t code_file, code_name, code_first_line, code_lines;  // pointers, but an int32 line
  // Pointers of a frame to the object that Python makes of it when it is asked for one, and to the
  // dictionary of a function's variables; -1: the frame has none.
  std::int64_t frame_object, frame_variables;
};

/// An instruction of a code object. `file` and `lines` tell apart code objects that had the same
/// address one after the other.
struct PythonPlace {
  const char* code = nullptr;
  std::int64_t instruction = 0;  // bytes into the code
  const void *file = nullptr, *lines = nullptr;
  bool operator==(const PythonPlace&) const = default;
};

/// False where this process has no Python that can be asked; then places() is empty.
bool set_python_layout(const PythonLayout& layout);

/// Frames of the calling thread, innermost first; empty on a thread that Python does not know.
void python_places(std::vector<PythonPlace>& places);

/// Code of tidemark's is to ask Python for frames and their variables: notes which frames of all
/// threads have no object yet. The caller has Python's lock.
void note_frames();
/// Takes the objects from these frames that Python has made since, where nothing else refers to
/// them: else each would live as long as its function runs.
void drop_frames();

struct PythonLine {
  std::string function, file;
  int line = 0;
};
/// Only while the frame is there.
PythonLine line_of(const PythonPlace& place);

}  // namespace tidemark::recorder
