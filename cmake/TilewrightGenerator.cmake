# Where the generator is: beside this file, in the source tree of Tilewright or in the installed package.
#
# Sets TILEWRIGHT_GENERATOR (the module for `python -m`), TILEWRIGHT_GENERATOR_ROOT (the folder to run it in) and
# TILEWRIGHT_TEMPLATES (files whose change makes it run again).

get_filename_component(TILEWRIGHT_GENERATOR_ROOT "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
if(EXISTS "${TILEWRIGHT_GENERATOR_ROOT}/codegen/__main__.py")
  set(TILEWRIGHT_GENERATOR codegen)
  file(GLOB TILEWRIGHT_TEMPLATES CONFIGURE_DEPENDS "${TILEWRIGHT_GENERATOR_ROOT}/csrc_templates/*.j2")
else()
  get_filename_component(TILEWRIGHT_GENERATOR_ROOT "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  set(TILEWRIGHT_GENERATOR tilewright_codegen)
  set(TILEWRIGHT_TEMPLATES "")
endif()
if(NOT EXISTS "${TILEWRIGHT_GENERATOR_ROOT}/${TILEWRIGHT_GENERATOR}/__main__.py")
  message(FATAL_ERROR "The generator of Tilewright is not where ${CMAKE_CURRENT_LIST_DIR} says it is")
endif()
