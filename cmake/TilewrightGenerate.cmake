# Runs the generator at configure time. It writes only what changes, so that objects stay up to date when a dispatch
# rule moves but no tile does.

set(TILEWRIGHT_GENERATED "${CMAKE_CURRENT_BINARY_DIR}/generated")
set(TILEWRIGHT_ARCH_LIST "$ENV{TILEWRIGHT_ARCHS}" CACHE STRING "Archs to build: tokens such as 80;90a, or a named set")
if(DEFINED ENV{TILEWRIGHT_ARCHS})
  set(TILEWRIGHT_ARCH_LIST "$ENV{TILEWRIGHT_ARCHS}")
endif()
if(TILEWRIGHT_ARCH_LIST STREQUAL "")
  set(TILEWRIGHT_ARCH_LIST small)
endif()

execute_process(
  COMMAND "${Python_EXECUTABLE}" -m codegen render --specs specs --out "${TILEWRIGHT_GENERATED}"
          --archs "${TILEWRIGHT_ARCH_LIST}" --cuda "${TILEWRIGHT_CUDA_VERSION}"
  WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
  RESULT_VARIABLE status ERROR_VARIABLE errors)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "The generator failed:\n${errors}")
endif()
include("${TILEWRIGHT_GENERATED}/archs.cmake")
include("${TILEWRIGHT_GENERATED}/files.cmake")

file(GLOB_RECURSE inputs CONFIGURE_DEPENDS specs/*.yaml codegen/*.py csrc_templates/*.j2)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${inputs})
