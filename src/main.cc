#include "cli/cli.h"

int main(int argc, char** argv) { return fermata::cli::run(argc, argv); }
