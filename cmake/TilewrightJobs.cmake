# Compilers at once: a pool whose depth the planner chooses from memory, processors and MAX_JOBS. It is told of more
# targets than there are threads of one nvcc: which there will be is not known yet.

include(TilewrightGenerator)
execute_process(
  COMMAND "${Python_EXECUTABLE}" -m ${TILEWRIGHT_GENERATOR}.jobs 64
  WORKING_DIRECTORY "${TILEWRIGHT_GENERATOR_ROOT}"
  OUTPUT_VARIABLE TILEWRIGHT_JOBS OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status ERROR_VARIABLE errors)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "Planning the jobs failed: ${errors}")
endif()
message(STATUS "Compilers at once: ${TILEWRIGHT_JOBS}")
set_property(GLOBAL PROPERTY JOB_POOLS compile=${TILEWRIGHT_JOBS})
set(CMAKE_JOB_POOL_COMPILE compile)

# A compiler killed for memory says nothing itself; the launcher names the file and the remedy.
# A launcher of the user's own, such as ccache, runs inside it.
list(PREPEND CMAKE_CUDA_COMPILER_LAUNCHER "${Python_EXECUTABLE}" -I "${TILEWRIGHT_RUN_COMPILER}")
