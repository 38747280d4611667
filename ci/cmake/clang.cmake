# Toolchain of the presets: the newest clang from 16 on, else the machine's own compiler. CXX or -DCMAKE_CXX_COMPILER=... names another.
if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  foreach(version RANGE 29 16 -1)
    find_program(found clang++-${version} NO_CACHE)
    if(found)
      string(REPLACE clang++ clang c ${found})
      set(CMAKE_C_COMPILER ${c} CACHE FILEPATH "") # kept where a newer one is installed later
      set(CMAKE_CXX_COMPILER ${found} CACHE FILEPATH "")
      break()
    endif()
  endforeach()
endif()
