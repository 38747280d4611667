// Linked into what speaks MPI where it is built with AddressSanitizer. OpenMPI unloads plugins that
// have not freed everything: such a leak has no name by which it could be told from one of ours.
// Leaks are looked for in the tests without MPI, growth in soak_test.
extern "C" int __lsan_is_turned_off() { return 1; }
