/* Linked with the installed libcufile.so.0; prints its interface version. */
#include <cufile.h>
#include <stdio.h>

int main(void) {
  int version = 0;
  const CUfileError_t error = cuFileGetVersion(&version);
  if (error.err != CU_FILE_SUCCESS) return 1;
  printf("%d\n", version);
  return 0;
}
