# Compilers at once: a pool whose depth the planner chooses from memory, processors and MAX_JOBS.

list(LENGTH TILEWRIGHT_ALL_ARCHITECTURES target_count)
execute_process(
  COMMAND "${Python_EXECUTABLE}" -m codegen.jobs ${target_count}
  WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
  OUTPUT_VARIABLE TILEWRIGHT_JOBS OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status ERROR_VARIABLE errors)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "Planning the jobs failed: ${errors}")
endif()
message(STATUS "Compilers at once: ${TILEWRIGHT_JOBS}")
set_property(GLOBAL PROPERTY JOB_POOLS compile=${TILEWRIGHT_JOBS})
set(CMAKE_JOB_POOL_COMPILE compile)

# A compiler killed for memory says nothing itself; the launcher names the file and the remedy.
# A launcher of the user's own, such as ccache, runs inside it.
list(PREPEND CMAKE_CUDA_COMPILER_LAUNCHER "${Python_EXECUTABLE}" -I "${CMAKE_CURRENT_LIST_DIR}/run_compiler.py")
