#pragma once

#include <string>

// Where a test finds the project's files and what was built. Only places.cc knows the folders: a
// compiler cache serves every other file in any checkout.
namespace fermata {

std::string project_folder();   // the checkout
std::string data_folder();      // tests/data
std::string fermata_command();  // the program

}  // namespace fermata
