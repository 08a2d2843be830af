# plumb_flags - the one place for compiler flags.
#
# Contraction is off everywhere and fast-math nowhere: kernels that want a fused
# multiply-add call it by name, and gcc and clang then agree bit for bit.
add_library(plumb_flags INTERFACE)
target_include_directories(plumb_flags INTERFACE ${PROJECT_SOURCE_DIR}/include
  ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(plumb_flags INTERFACE _POSIX_C_SOURCE=200809L)
target_compile_options(plumb_flags INTERFACE
  -ffp-contract=off -fno-math-errno -fno-trapping-math -fvisibility=hidden
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wstrict-prototypes
  -Wmissing-prototypes -Wvla -Wundef -Wdouble-promotion -Wcast-align -Wwrite-strings
  -Wformat=2)
if(PLUMB_WERROR)
  target_compile_options(plumb_flags INTERFACE -Werror)
endif()
if(PLUMB_SANITIZE)
  target_compile_options(plumb_flags INTERFACE -fsanitize=address,undefined
    -fno-sanitize-recover=all -fno-omit-frame-pointer -O1)
  target_link_options(plumb_flags INTERFACE -fsanitize=address,undefined)
endif()

# The suffix of a file is its contract with the compiler.
set(PLUMB_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi2)
set(PLUMB_FLAGS_avx512 ${PLUMB_FLAGS_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl
  -mprefer-vector-width=512)
set(PLUMB_FLAGS_avx512bf16 ${PLUMB_FLAGS_avx512} -mavx512bf16 -mavx512vbmi -mavx512vnni
  -mavx512vpopcntdq)
set(PLUMB_FLAGS_amx ${PLUMB_FLAGS_avx512bf16} -mamx-tile -mamx-bf16)
