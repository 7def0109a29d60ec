# Where the generator is: beside this file, in the source tree of Tilewright or in the installed package, or where Python
# finds it (an editable install has copies of these files alone).
#
# Sets TILEWRIGHT_GENERATOR (the module for `python -m`), TILEWRIGHT_GENERATOR_ROOT (the folder to run it in),
# TILEWRIGHT_TEMPLATES (files whose change makes it run again) and TILEWRIGHT_RUN_COMPILER.

get_filename_component(TILEWRIGHT_GENERATOR_ROOT "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
set(TILEWRIGHT_GENERATOR codegen)
if(NOT EXISTS "${TILEWRIGHT_GENERATOR_ROOT}/codegen/__main__.py")
  get_filename_component(TILEWRIGHT_GENERATOR_ROOT "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  set(TILEWRIGHT_GENERATOR tilewright_codegen)
endif()
if(NOT EXISTS "${TILEWRIGHT_GENERATOR_ROOT}/${TILEWRIGHT_GENERATOR}/__main__.py")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
      "from importlib.util import find_spec; print(find_spec('tilewright_codegen.__main__').origin)"
    OUTPUT_VARIABLE main OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT EXISTS "${main}")
    message(FATAL_ERROR "${Python_EXECUTABLE} has no generator; install tilewright-codegen")
  endif()
  get_filename_component(package "${main}" DIRECTORY)
  get_filename_component(TILEWRIGHT_GENERATOR_ROOT "${package}" DIRECTORY)
  get_filename_component(TILEWRIGHT_GENERATOR "${package}" NAME)
endif()

file(GLOB TILEWRIGHT_TEMPLATES CONFIGURE_DEPENDS "${TILEWRIGHT_GENERATOR_ROOT}/csrc_templates/*.j2")
find_file(TILEWRIGHT_RUN_COMPILER run_compiler.py REQUIRED NO_CACHE NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH
  PATHS "${CMAKE_CURRENT_LIST_DIR}" "${TILEWRIGHT_GENERATOR_ROOT}/cmake")
