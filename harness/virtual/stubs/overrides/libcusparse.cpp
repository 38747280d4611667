STUB(int, cusparseCreate)(void** handle) { return *handle = std::calloc(1, 16), 0; }
STUB(int, cusparseDestroy)(void* handle) { return std::free(handle), 0; }
STUB(int, cusparseSetStream)(void* handle, void* stream) {
  return *static_cast<void**>(handle) = stream, 0;
}
STUB(int, cusparseGetStream)(void* handle, void** stream) {
  return *stream = *static_cast<void**>(handle), 0;
}
STUB(int, cusparseSetPointerMode)(void*, int) { return 0; }
STUB(const char*, cusparseGetErrorString)(int status) {
  return status == 0 ? "success" : "operation not supported";
}
