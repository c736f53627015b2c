#include <cstdlib>

#include "cli/cli.h"

int main(int argc, char** argv) {
  // Else ONNX Runtime keeps what runs here in the user's cache and sends it to its maker. Child
  // processes inherit it, and who wants it may say 0.
  setenv("ORT_DISABLE_TELEMETRY", "1", 0);
  return fermata::cli::run(argc, argv);
}
