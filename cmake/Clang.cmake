# The compiler of the presets clang, asan, tsan and fuzz: clang 14 (Debian 12's, and Ubuntu 24.04 has it
# too), or the system's own clang where there is no 14 (Debian 13).
find_program(clang_c NAMES clang-14 clang REQUIRED)
find_program(clang_cxx NAMES clang++-14 clang++ REQUIRED)
set(CMAKE_C_COMPILER ${clang_c})
set(CMAKE_CXX_COMPILER ${clang_cxx})
