// Python's cyclic garbage collector in this process, as the recorder asks and leaves it.
#pragma once

namespace tidemark::recorder {

/// Places of two integers of Python's: whether it collects now, and the count of new objects that
/// decides when it does. Null: not known.
void set_collector(const int* collects, int* count);
/// True if Python's collector runs, and the calling thread is one of Python's. The collector's
/// thread lets go of Python's lock while a tensor ends, so the lock does not tell.
bool collects();

/// Code of tidemark's begins or ends on a thread that has Python's lock. In between the collector
/// is off. Afterwards its count is what it was, and Python has the freed objects that it had to use
/// again, as if no object had been made. It may nest.
void begin_own_code();
void end_own_code();
/// Python has no freed object to use again, whatever tidemark has done until now; but one slice.
void drop_spare();

}  // namespace tidemark::recorder
