#include "places/places.h"

namespace fermata {

std::string project_folder() { return FERMATA_SOURCE_DIR; }
std::string data_folder() { return FERMATA_SOURCE_DIR "/tests/data"; }
std::string fermata_command() { return FERMATA_BINARY_DIR "/fermata"; }

}  // namespace fermata
