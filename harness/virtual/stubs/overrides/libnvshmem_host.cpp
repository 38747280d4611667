static void* refuse(const char* function) {
  tidemark::device::not_supported(library, function);
  return nullptr;
}
STUB(void*, nvshmem_malloc)() { return refuse("nvshmem_malloc"); }
STUB(void*, nvshmem_ptr)() { return refuse("nvshmem_ptr"); }
STUB(void*, nvshmemx_mc_ptr)() { return refuse("nvshmemx_mc_ptr"); }
STUB(void, nvshmem_free)(void* pointer) {
  if (pointer) refuse("nvshmem_free");
}
STUB(void, nvshmem_info_get_version)(int* major, int* minor) { *major = 3, *minor = 0; }
STUB(int, nvshmemid_init_status)() { return 0; }  // NVSHMEM_STATUS_NOT_INITIALIZED
