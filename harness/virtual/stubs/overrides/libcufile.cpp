// CUfileError_t is two ints in one register: the file error below, the CUDA error (801, not
// supported) above.
struct FileError {
  int file, cuda;
};
static FileError refuse(const char* function) {
  tidemark::device::not_supported(library, function);
  return {not_supported, 801};
}
STUB(FileError, cuFileHandleRegister)() { return refuse("cuFileHandleRegister"); }
STUB(FileError, cuFileBufRegister)() { return refuse("cuFileBufRegister"); }
STUB(FileError, cuFileBufDeregister)() { return refuse("cuFileBufDeregister"); }
STUB(void, cuFileHandleDeregister)() { refuse("cuFileHandleDeregister"); }
STUB(intptr_t, cuFileRead)() { return -refuse("cuFileRead").file; }
STUB(intptr_t, cuFileWrite)() { return -refuse("cuFileWrite").file; }
