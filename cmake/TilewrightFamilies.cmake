# Kernels, selector and launch table of every family of a specs folder, generated at configure time and compiled into a
# target. After include(TilewrightToolkit), enable_language(CUDA) and a find_package(Python) with its Interpreter:
#
#   tilewright_add_families(TARGET
#     SPECS folder             the specs
#     [NAMESPACE name]         C++ namespace of the kernels, and first folder of what is included; default: tilewright
#     [HEADERS folder]         holds NAMESPACE/FAMILY/args.h and NAMESPACE/FAMILY/launch.cuh
#     [ARCHS list]             arch tokens, such as "80;90a;89+PTX"; default: all archs of the specs
#     [SOURCES file...]        sources for all archs: kernels that belong to no tile, host code that sees the same options
#     [INCLUDES folder...]     more folders to include from
#     [OPTIONS option...]      more options of the compilers
#     [RUNTIME file])          the CUDA runtime to link; default: libcudart_static.a of the toolkit
#
# The sources of the target itself see the generated headers as <NAMESPACE/generated/FAMILY.h>. When TARGET is linked its
# machine code is read back, and the build fails, naming family and arch, unless it is what was asked for.
#
# Sets TILEWRIGHT_GENERATED (the folder of generated sources) in the caller's scope.

include(TilewrightJobs)

# Every library is told apart by its own targets; the runtime is named below.
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
if(NOT DEFINED CMAKE_CXX_STANDARD)
  set(CMAKE_CXX_STANDARD 17)
endif()
if(NOT DEFINED CMAKE_CUDA_STANDARD)
  set(CMAKE_CUDA_STANDARD 17)
endif()

function(tilewright_add_families target)
  if(POLICY CMP0174)
    cmake_policy(SET CMP0174 NEW)  # ARCHS "" is a value: that of a variable which is not set
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SPECS;NAMESPACE;HEADERS;ARCHS;RUNTIME" "SOURCES;INCLUDES;OPTIONS")
  list(REMOVE_ITEM arg_KEYWORDS_MISSING_VALUES ARCHS)
  foreach(word IN LISTS arg_UNPARSED_ARGUMENTS arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "tilewright_add_families(${target}): '${word}' is not understood, or has no value")
  endforeach()
  if(NOT arg_SPECS)
    message(FATAL_ERROR "tilewright_add_families(${target}): SPECS, the folder of the specs, is missing")
  endif()
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/generated")
  if(TILEWRIGHT_FAMILIES_OF)
    message(FATAL_ERROR
      "tilewright_add_families(${target}): this folder has those of ${TILEWRIGHT_FAMILIES_OF}; use add_subdirectory")
  endif()
  set(TILEWRIGHT_FAMILIES_OF ${target} PARENT_SCOPE)
  _tilewright_render("${generated}" "${target}")
  set(TILEWRIGHT_GENERATED "${generated}" PARENT_SCOPE)
  include("${generated}/archs.cmake")
  include("${generated}/files.cmake")

  set(options ${target}_options)
  add_library(${options} INTERFACE)
  target_include_directories(${options} INTERFACE "${generated}" ${arg_HEADERS} ${arg_INCLUDES})
  target_include_directories(${options} SYSTEM INTERFACE "${TILEWRIGHT_CUDA_INCLUDE}")
  target_compile_options(${options} INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:-compress-mode=size>" "$<$<COMPILE_LANGUAGE:CXX>:-Werror=switch>" ${arg_OPTIONS})

  foreach(group IN LISTS TILEWRIGHT_GROUPS)
    list(TRANSFORM TILEWRIGHT_GROUP_${group}_SOURCES PREPEND "${generated}/")
    _tilewright_objects(${target} ${group} "${TILEWRIGHT_GROUP_${group}_ARCHITECTURES}"
      ${TILEWRIGHT_GROUP_${group}_SOURCES})
  endforeach()
  list(TRANSFORM TILEWRIGHT_HOST_SOURCES PREPEND "${generated}/")
  _tilewright_objects(${target} host "${TILEWRIGHT_ALL_ARCHITECTURES}" ${TILEWRIGHT_HOST_SOURCES} ${arg_SOURCES})

  if(NOT arg_RUNTIME)
    set(arg_RUNTIME "${TILEWRIGHT_CUDART}")
  endif()
  target_link_libraries(${target} PRIVATE ${options} "${arg_RUNTIME}" dl pthread rt)
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM
    COMMAND "${Python_EXECUTABLE}" -m ${TILEWRIGHT_GENERATOR}.binary "$<TARGET_FILE:${target}>"
            "${generated}/images.json" --cuobjdump "${TILEWRIGHT_CUOBJDUMP}"
    WORKING_DIRECTORY "${TILEWRIGHT_GENERATOR_ROOT}"
    COMMENT "Reading the machine code of ${target} back")
endfunction()

# The generator writes only what changes, so that objects stay up to date when a rule moves but no tile does.
function(_tilewright_render generated target)
  if(NOT arg_ARCHS)
    set(arg_ARCHS all)
  endif()
  # Semicolons part the words of a command: the arch list is written with blanks.
  list(JOIN arg_ARCHS " " archs)
  set(flags --archs "${archs}" --cuda "${TILEWRIGHT_CUDA_VERSION}")
  if(arg_NAMESPACE)
    list(APPEND flags --namespace "${arg_NAMESPACE}")
  endif()
  if(arg_HEADERS)
    list(APPEND flags --headers "${arg_HEADERS}")
  endif()
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -m ${TILEWRIGHT_GENERATOR} render --specs "${arg_SPECS}" --out "${generated}"
            ${flags}
    WORKING_DIRECTORY "${TILEWRIGHT_GENERATOR_ROOT}"
    RESULT_VARIABLE status ERROR_VARIABLE errors)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "The generator failed for ${target}:\n${errors}")
  endif()
  file(GLOB_RECURSE inputs CONFIGURE_DEPENDS
    "${arg_SPECS}/*.yaml" "${TILEWRIGHT_GENERATOR_ROOT}/${TILEWRIGHT_GENERATOR}/*.py")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${inputs} ${TILEWRIGHT_TEMPLATES})
endfunction()

# CUDA_ARCHITECTURES is a property of a target, so sources with the same arch list make one object library.
function(_tilewright_objects target group architectures)
  set(name ${target}_${group})
  add_library(${name} OBJECT ${ARGN})
  set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES "${architectures}" POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${name} PRIVATE ${target}_options)
  target_link_libraries(${target} PRIVATE ${name})
endfunction()
