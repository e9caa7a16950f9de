// A library with some functions of libcufile.so.0, but not all that are needed.
extern "C" {
__attribute__((visibility("default"))) long cuFileDriverOpen() { return 0; }
__attribute__((visibility("default"))) long cuFileDriverGetProperties(void*) { return 0; }
}
