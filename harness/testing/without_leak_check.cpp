// Linked into tidemark itself where it is built with AddressSanitizer: its ranks speak MPI, so that
// a leak at exit cannot be told from one of OpenMPI's unloaded plugins (see main.cpp).
extern "C" int __lsan_is_turned_off() { return 1; }
