// headrace: look at, read, check and generate Zarr stores, and measure transfers, from the command line.
#include "cli_common.h"

int main(int argc, char** argv) { return headrace::cli::run_command_line(argc, argv); }
