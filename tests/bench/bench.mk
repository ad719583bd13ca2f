# bench.mk: what things cost, beside yardsticks and peers; included by
# Makefile. The program is always of the release flavour, but for its tests.
#
#   make bench, bench-quick   the table, bench.jsonl and bench.svg
#   make bench-scale          cost against size: scale.jsonl and scale.svg
#   make bench-instr          instructions an operation (callgrind)
BENCH     := $(B)/tests/bench
BENCH_OUT := build/bench
BENCH_SRC := $(wildcard tests/bench/*.c)
BENCH_OBJ := $(BENCH_SRC:%.c=$(B)/%.o)
# CUB is C++: built where its headers and a C++ compiler are.
BENCH_CUB_INC := $(firstword $(wildcard $(CUDA_HOME)/include/cccl/cub/util_allocator.cuh \
    /usr/local/cuda/include/cccl/cub/util_allocator.cuh \
    /usr/local/cuda/include/cub/util_allocator.cuh))
BENCH_CUB := $(if $(HAVE_CUDA),$(if $(BENCH_CUB_INC),$(if $(shell command -v $(CXX)),$(BENCH)/libbench_cub.so)))
# Those that Debian's mirrors may lack are skipped aloud by the program.
BENCH_NEED := libmimalloc2.0 libjemalloc2

$(BENCH)/bench: $(BENCH_OBJ) $(STATIC)
	$(call say,ld,$@)
	$(Q)$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $^ $(LIBS) -o $@

$(BENCH)/libbench_cub.so: tests/bench/subject_cub.cpp $(B)/tests/bench/event.o
	$(call say,c++,$@)
	$(Q)$(CXX) -shared -std=c++17 -D_GNU_SOURCE -fPIC -fvisibility=hidden $(OPT_$(FLAVOUR)) \
	    -I. -Iinclude -isystem $(BENCH_CUB_INC:%/cub/util_allocator.cuh=%) $(CUDA_FLAGS) $^ -pthread -o $@

# Its test: some parts linked in, and the program beside it, to be run.
$(B)/tests/unit/check_bench: $(addprefix $(BENCH)/,event.o goal.o measure.o plan.o trace.o) | $(BENCH)/bench

bench-program: $(BENCH)/bench $(BENCH_CUB)
	$(if $(BENCH_CUB),,@echo 'skip: CUB: no C++ compiler or no headers of it')

bench-need:
	-@tests/need.sh $(BENCH_NEED)

bench: bench-need
	+@$(MAKE) FLAVOUR=release B=build/release bench-program
	@mkdir -p $(BENCH_OUT)
	@build/release/tests/bench/bench full $(BENCH_OUT)
bench-quick: bench-need
	+@$(MAKE) FLAVOUR=release B=build/release bench-program
	@mkdir -p $(BENCH_OUT)
	@build/release/tests/bench/bench quick $(BENCH_OUT)
bench-scale: bench-need
	+@$(MAKE) FLAVOUR=release B=build/release bench-program
	@mkdir -p $(BENCH_OUT)
	@build/release/tests/bench/bench scale $(BENCH_OUT)
bench-instr: bench-need
	@tests/need.sh valgrind
	+@$(MAKE) FLAVOUR=release B=build/release bench-program
	@mkdir -p $(BENCH_OUT)
	@tests/bench/instr.sh build/release/tests/bench/bench $(BENCH_OUT)

-include $(BENCH_OBJ:.o=.d)
.PHONY: bench bench-quick bench-scale bench-instr bench-need bench-program
