// headrace: a command line tool to inspect, read, verify and generate Zarr stores, and to measure transfers.
#include "cli_common.h"

int main(int argc, char** argv) { return headrace::cli::run_command_line(argc, argv); }
