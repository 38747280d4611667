// Record of a process's memory, in a file that outlives it (format.h): every event of PyTorch's
// caching allocator with its Python stack, module and autograd node, and what the program says of
// it. Plain C, part of the operator layer. Without a record each call does nothing. PyTorch's own
// history of the allocator (torch.cuda.memory._record_memory_history) is not touched.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <vector>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// Begins the record of this process in a new file, PID.record; `history` 0: the peaks alone; 1:
/// events too, in a file with a bound (bound.h); 2: every event. 0, or -1: tidemark_record_error()
/// says why. The child of a fork has no record until it begins its own. Races, calls of NCCL and
/// answers are in PID.json beside it (process_file.h).
int tidemark_record_begin(const char* path, int history);
/// Follows PyTorch's allocator, whose CUDA must have been started. 0, or -1 where the program has
/// another allocator, whose memory cannot be recorded.
int tidemark_record_follow(void);
const char* tidemark_record_error(void);
/// The process ends by itself, and nothing is recorded from here on, unless it goes on (`ended` 0:
/// an exec failed).
void tidemark_record_end(int ended);
/// The program got `answer` about values that are not known; `decides` is 1 where it is likely to
/// branch by it, `line` is the program's line that asked, or empty. Counted from the first on.
void tidemark_record_answer(const char* operation, const char* answer, int decides,
                            const char* line);

/// Places of fields in Python's structures (python_frames.h), in the order of PythonLayout. 0, or
/// -1: this process has no Python that can be asked.
int tidemark_record_python(const int64_t* layout, size_t count);
/// The stack of the calling thread, "function file:line" a line, innermost first. Returns its
/// length; writes up to `size`.
size_t tidemark_record_stack(char* text, size_t size);

/// The number of the calling thread's stack; 0 without a record of events. Given to a thread that
/// it starts, as the first thing that this one does, it is the place of what has no line of its own
/// there.
uint32_t tidemark_record_here(void);
void tidemark_record_thread(uint32_t stack);

/// Code that a compiler wrote into `file` stands, from `line` to the next line of which this is
/// said, for `count` frames of the program, outermost first.
void tidemark_record_written(const char* file, int line, size_t count, const char* const* functions,
                             const char* const* files, const int* lines);

/// Places in this process's Python of the flag that its collector runs, and of the count of new
/// objects (collector.h). Null: not known.
void tidemark_record_collector(const int* collects, int* count);

/// The allocator's setting `name` is `value`.
void tidemark_record_setting(const char* name, const char* value);
void tidemark_record_rank(int rank);
/// The block at `address` is a tensor of `kind` ("parameters", "gradients", "optimizer state",
/// "buffers") and `name`.
void tidemark_record_label(const void* address, const char* kind, const char* name);
/// What this thread frees from now on is a tensor of `kind`; nullptr: no longer.
void tidemark_record_freed(const char* kind);
/// 1 if a tensor at `address` has such a label.
int tidemark_record_is_labelled(const void* address);
/// Which allocation of this process has made the block at `address`: another block in its place has
/// another number. 0: no block begins there.
int64_t tidemark_record_born(const void* address);
/// A graph of autograd's that the program holds has saved the block at `address`.
void tidemark_record_in_graph(const void* address);
/// The program has ended, and Python's collector is to run: of what is freed from here on the
/// record has only whether the collector frees it.
void tidemark_record_program_ends(void);
/// A stretch of the program begins, or the innermost one of that name ends. "forward" and
/// "backward" begin a training step if "optimizer" came before them; before the first optimizer an
/// outermost "forward" begins a repetition. Returns the number of steps and repetitions until now.
int64_t tidemark_record_phase(const char* name);
void tidemark_record_phase_end(const char* name);
/// Bytes that PyTorch has allocated now, on all GPUs of this process together.
int64_t tidemark_record_allocated(void);
/// A stretch of the program begins on a device, whatever phases it has; its number. 0: this process
/// has no record, or its allocator is not followed. Stretches may overlap.
int64_t tidemark_record_stretch(int device);
/// Twelve figures of a stretch in bytes: allocated, active, reserved and requested when it began,
/// then the highest of each since (its first moment included), then those of now. -1: this process
/// has no record.
int tidemark_record_stretch_read(int64_t stretch, int64_t* bytes);
void tidemark_record_stretch_end(int64_t stretch);
/// Bytes as requested that the program holds on a device, without freed ones that wait for a
/// stream.
int64_t tidemark_record_held(int device);
/// A function of python_calls.cpp as a builtin of this process's Python: a new reference
/// (PyObject*), or nullptr. The calling thread has Python's lock.
void* tidemark_record_builtin(const char* name);

#ifdef __cplusplus
}

namespace tidemark::recorder {

/// An all-gather into one tensor: addresses of its output and of this rank's shard, and the bytes
/// of the shard.
void note_gather(const void* output, const void* shard, int64_t shard_bytes);
/// An operator reads the block around the address. Null: every block may be read.
/// `place`: of the tensor in a list; -1: it is in none.
void note_read(const void* address, int place = -1);
/// The operator of this thread overwrites the tensor at the address with what it has read.
void note_overwritten(const void* address);
/// The operator of this thread writes the tensor at the address. `overwrites`: nothing is left of
/// what the tensor's block held before.
void note_written(const void* address, int place, bool overwrites);

/// While it lives the calling thread is in an operator. What it calls reads what it has read.
struct Operator {
  Operator() : outer(now), source(now == nullptr ? nullptr : now->source) { now = this; }
  ~Operator() { now = outer; }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  Operator* const outer;
  struct Source {
    const void* address;
    int place;  // of the tensor in a list, whose results have the same places; -1: in no list
  };
  /// A block is allocated in it; which of its list of results it may be.
  int allocated() {
    const int place = allocations++;
    if (outer != nullptr) outer->allocated();
    return place;
  }

  std::vector<Source> gradients;  // what it reads of these, or of what is computed from them
  int allocations = 0;
  const void* source;  // what it reads of a block that may be of a forward; nullptr: nothing
  static inline thread_local Operator* now = nullptr;
};

}  // namespace tidemark::recorder
#endif
