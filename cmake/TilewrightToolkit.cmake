# Finds the CUDA compiler: CMAKE_CUDA_COMPILER or $CUDACXX when given, else the nvidia-cuda-* wheels of the Python that
# builds. find_package(CUDAToolkit) is not used: it wants a libcudart.so, which the wheels lack.
#
# Sets CMAKE_CUDA_COMPILER, TILEWRIGHT_CUDA_INCLUDE, TILEWRIGHT_CUDART, TILEWRIGHT_CUOBJDUMP, TILEWRIGHT_CUDA_VERSION.

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
      "import importlib.util as u; s = u.find_spec('nvidia.cu13'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE TILEWRIGHT_CUDA_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT EXISTS "${TILEWRIGHT_CUDA_ROOT}/bin/nvcc")
    message(FATAL_ERROR
      "No CUDA compiler: ${Python_EXECUTABLE} has no nvidia-cuda-nvcc. Install the build requirements of pyproject.toml, "
      "or set CUDACXX to an nvcc.")
  endif()
  set(CMAKE_CUDA_COMPILER "${TILEWRIGHT_CUDA_ROOT}/bin/nvcc" CACHE FILEPATH "CUDA compiler" FORCE)
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER "$ENV{CUDACXX}" CACHE FILEPATH "CUDA compiler" FORCE)
endif()

get_filename_component(TILEWRIGHT_CUDA_BIN "${CMAKE_CUDA_COMPILER}" DIRECTORY)
get_filename_component(TILEWRIGHT_CUDA_ROOT "${TILEWRIGHT_CUDA_BIN}" DIRECTORY)
find_path(TILEWRIGHT_CUDA_INCLUDE cuda_runtime_api.h REQUIRED NO_DEFAULT_PATH
  PATHS "${TILEWRIGHT_CUDA_ROOT}/include" "${TILEWRIGHT_CUDA_ROOT}/targets/x86_64-linux/include")
find_file(TILEWRIGHT_CUDART libcudart_static.a REQUIRED NO_DEFAULT_PATH
  PATHS "${TILEWRIGHT_CUDA_ROOT}/lib" "${TILEWRIGHT_CUDA_ROOT}/lib64")
find_program(TILEWRIGHT_CUOBJDUMP cuobjdump REQUIRED HINTS "${TILEWRIGHT_CUDA_BIN}")

execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --version OUTPUT_VARIABLE nvcc_text)
if(NOT nvcc_text MATCHES "release ([0-9]+\\.[0-9]+)")
  message(FATAL_ERROR "${CMAKE_CUDA_COMPILER} --version names no release")
endif()
set(TILEWRIGHT_CUDA_VERSION "${CMAKE_MATCH_1}")

# For the compiler test only; every target sets its own.
set(CMAKE_CUDA_ARCHITECTURES 80)
