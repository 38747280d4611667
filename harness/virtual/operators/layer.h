// Numbers of PyTorch's CUDA operators on the virtual device, whose kernels compute nothing. Plain
// C, to be called by a program or looked up by name.
//
//   off     PyTorch is untouched
//   shapes  no numbers: a float that is read is NaN, after its synchronisation; an operator that
//           needs values (its output's size, an integer read on the host) is refused by name
//   cost    shapes, and every operator is bracketed with the bytes of its tensors, for the
//           calibrated clock
//   math    after an operator's own CUDA host code has run, the CPU kernel of the same operator
//           computes into the same memory; bracketed as in cost. An operator without numbers is an
//           error that names it
//   known   math where all that an operator reads is known and its results are small; else as in
//           cost, its results are unknown, and what the host reads of them is a policy
//
// If race detection is on when a mode is entered (../race/control.h), every operator reports its
// reads and writes.
//
// `math` allocates on the device exactly what `shapes` does. Install from one thread, while no
// operator runs.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Leaves the mode before, if any, and enters `mode`. 0, or -1: tidemark_layer_error() says why.
int tidemark_layer_install(const char* mode);
const char* tidemark_layer_mode(void);
/// The operators tell the record of this process what they read. Called before a mode is entered.
void tidemark_layer_follow_reads(void);
const char* tidemark_layer_error(void);

/// {"mode", "wrapped", "without_numbers": [names], "used": [names]} as JSON: how many operators the
/// mode stands before, which CUDA operators math refuses, and which it has computed since it was
/// entered. Returns its length; writes up to `size`.
size_t tidemark_layer_describe(char* text, size_t size);

/// Mode known: `event` is called, on the thread of the program, whenever the program is told
/// `answer` about values that are not known; `decides` is 1 where that is a bool. Null: there
/// is no listener.
void tidemark_layer_on_event(void (*event)(const char* operation, const char* answer, int decides));

/// Race detection: `place` is called on the thread of every operator outside the backward and
/// returns the number of the program's line, which tidemark_layer_place_name has named before; -1
/// where there is none. Reports of races then name operators with their lines, and in the backward
/// with autograd's node. Null: there is no listener.
void tidemark_layer_on_place(int (*place)(void));
/// Names the line `number`: 0, 1, 2 ... in this order.
void tidemark_layer_place_name(int number, const char* name);

#ifdef __cplusplus
}
#endif
