# bench.mk: what things cost, beside yardsticks and peers; included by
# Makefile. The program is always of the release flavour, but for its tests.
#
#   make bench, bench-quick   the table, bench.jsonl and bench.svg
#   make bench-axes           speed beside memory: one axis at a time
#   make bench-peers          the same beside PyTorch, which it downloads
#   make bench-held           memory alone, beside the least that could be held
#   make bench-grow           what memory costs to be had, and who pays: grow.jsonl
#   make bench-staging        pageable memory copied through a staging ring: staging.jsonl
#   make bench-pin            how fast memory is page-locked, and who waits: pin.jsonl
#   make bench-scale          cost against size: scale.jsonl and scale.svg
#   make bench-instr          instructions an operation (callgrind)
#   make replay TRACE=FILE    what a program did, again (WARMPOOL_CONF=trace:FILE)
BENCH     := $(B)/tests/bench
BENCH_OUT := build/bench
BENCH_SRC := $(wildcard tests/bench/*.c)
BENCH_OBJ := $(BENCH_SRC:%.c=$(B)/%.o)
BENCH_MAINS := $(BENCH)/bench.o $(BENCH)/replay.o $(BENCH)/grow.o $(BENCH)/pin.o $(BENCH)/staging.o
BENCH_PARTS := $(filter-out $(BENCH_MAINS),$(BENCH_OBJ))
# CUB is C++: built where its headers and a C++ compiler are. Not with the static
# C++ library, which needs a newer C library than machines with a GPU may have.
BENCH_CUB_INC := $(firstword $(wildcard $(CUDA_HOME)/include/cccl/cub/util_allocator.cuh \
    /usr/local/cuda/include/cccl/cub/util_allocator.cuh \
    /usr/local/cuda/include/cub/util_allocator.cuh))
BENCH_CUB := $(if $(HAVE_CUDA),$(if $(BENCH_CUB_INC),$(if $(shell command -v $(CXX)), \
    $(BENCH)/libbench_cub.so $(BENCH)/libbench_cub_cuda.so)))
BENCH_CXX = $(CXX) -shared -std=c++17 -D_GNU_SOURCE -fPIC -fvisibility=hidden $(OPT_$(FLAVOUR)) -I. -Iinclude \
    -isystem $(BENCH_CUB_INC:%/cub/util_allocator.cuh=%) $(CUDA_FLAGS)
# Those that Debian's mirrors may lack are skipped aloud by the program.
BENCH_NEED := libmimalloc2.0 libjemalloc2

$(BENCH)/bench $(BENCH)/replay: %: %.o $(BENCH_PARTS) $(STATIC)
	$(call say,ld,$@)
	$(Q)$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $^ $(LIBS) -o $@

$(BENCH)/grow $(BENCH)/pin $(BENCH)/staging: %: %.o $(STATIC)
	$(call say,ld,$@)
	$(Q)$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $^ $(LIBS) -o $@

# The cudart of peers. What they call must be visible; the map keeps the rest
# inside.
BENCH_CUDART := $(BENCH)/peers/libcudart.so.13
BENCH_CUDART_SRC := $(addprefix tests/bench/,peers/peer_cudart.c event.c measure.c)
$(BENCH_CUDART): $(BENCH_CUDART_SRC) tests/bench/peers/peer_cudart.map tests/bench/bench.h tests/bench/event.h
	@mkdir -p $(@D)
	$(call say,ld,$@)
	$(Q)$(CC) -shared $(filter-out -MMD -MP,$(FLAGS)) -fvisibility=default $(CUDA_FLAGS) $(BENCH_CUDART_SRC) \
	    -Wl,-soname,$(@F) -Wl,--version-script=tests/bench/peers/peer_cudart.map -o $@

BENCH_ON_CUDART = $< $(BENCH_CUDART) -Wl,-rpath,'$$ORIGIN/peers' -pthread -o $@
$(BENCH)/libbench_cub.so: tests/bench/peers/subject_cub.cpp tests/bench/bench.h $(BENCH_CUDART)
	$(call say,c++,$@)
	$(Q)$(BENCH_CXX) $(BENCH_ON_CUDART)

# PyTorch's wheel: the headers and two small libraries of it. Downloaded once,
# half a gigabyte, and only for bench-peers.
TORCH := torch==2.15.0
TORCH_DIR := build/peers/torch
$(TORCH_DIR)/lib/libc10_cuda.so:
	@mkdir -p build/peers
	$(call say,get,$(TORCH))
	$(Q)python3 -m pip download $(TORCH) --no-deps --quiet -d build/peers
	$(Q)cd build/peers && unzip -q -o torch-*.whl 'torch/include/*' 'torch/lib/libc10*.so' && rm torch-*.whl
	@touch $@

$(BENCH)/libbench_torch.so: tests/bench/peers/subject_torch.cpp tests/bench/bench.h $(BENCH_CUDART) \
    | $(TORCH_DIR)/lib/libc10_cuda.so
	$(call say,c++,$@)
	$(Q)$(BENCH_CXX) -std=c++20 -isystem $(TORCH_DIR)/include $(BENCH_ON_CUDART) \
	    -Wl,-rpath,$(abspath $(TORCH_DIR)/lib) -L$(TORCH_DIR)/lib -lc10_cuda -lc10

# Names of cudart stay open: the program loads it, nothing is linked.
$(BENCH)/libbench_cub_cuda.so: tests/bench/peers/subject_cub.cpp
	@mkdir -p $(@D)
	$(call say,c++,$@)
	$(Q)$(BENCH_CXX) -DBENCH_CUB_CUDA $^ -pthread -o $@
	$(Q)! nm -uD $@ | grep bench_ || { rm $@; exit 1; }

# Its test: some parts linked in, and the program beside it, to be run.
$(B)/tests/unit/bench/check_bench: $(addprefix $(BENCH)/,event.o goal.o least.o made.o measure.o \
    plan.o sequence.o steps.o trace_read.o) | $(BENCH)/bench $(BENCH)/replay
$(B)/tests/unit/bench/check_hot_path: $(addprefix $(BENCH)/,bench_driver.o event.o measure.o)
# Another's: the reader.
$(B)/tests/unit/runtime/base/check_trace: $(addprefix $(BENCH)/,steps.o trace_read.o)

bench-program: $(BENCH)/bench $(BENCH)/replay $(BENCH)/grow $(BENCH)/pin $(BENCH)/staging $(BENCH_CUB)
	$(if $(BENCH_CUB),,@echo 'skip: CUB: no C++ compiler or no headers of it')

bench-need:
	-@tests/need.sh $(BENCH_NEED)

bench: bench-need
	+@$(MAKE) FLAVOUR=release B=build/release bench-program
	@mkdir -p $(BENCH_OUT)
	@build/release/tests/bench/staging $(BENCH_OUT)
	@build/release/tests/bench/pin $(BENCH_OUT) $(PIN_MIB)
	@build/release/tests/bench/bench full $(BENCH_OUT)
# Downloads half a gigabyte.
bench-peers: bench-need
	+@$(MAKE) FLAVOUR=release B=build/release $(TORCH_DIR)/lib/libc10_cuda.so
	+@$(MAKE) FLAVOUR=release B=build/release bench-program build/release/tests/bench/libbench_torch.so
	@build/release/tests/bench/bench peers $(SEEDS:%=seeds=%) $(CONF:%=conf=%) $(if $(ONLY),'only=$(ONLY)')
bench-quick: bench-need
	+@$(MAKE) FLAVOUR=release B=build/release bench-program
	@mkdir -p $(BENCH_OUT)
	@build/release/tests/bench/bench quick $(BENCH_OUT)
# make bench-held [SEEDS=n,...] [CONF=key:value,...] [ONLY=NAME]
bench-axes bench-held: bench-%:
	+@$(MAKE) FLAVOUR=release B=build/release bench-program
	@build/release/tests/bench/bench $* $(SEEDS:%=seeds=%) $(CONF:%=conf=%) $(if $(ONLY),'only=$(ONLY)')
bench-grow:
	+@$(MAKE) FLAVOUR=release B=build/release build/release/tests/bench/grow
	@mkdir -p $(BENCH_OUT)
	@build/release/tests/bench/grow $(BENCH_OUT)
bench-staging:
	+@$(MAKE) FLAVOUR=release B=build/release build/release/tests/bench/staging
	@mkdir -p $(BENCH_OUT)
	@build/release/tests/bench/staging $(BENCH_OUT)
# make bench-pin [PIN_MIB=8192]: so much is prewarmed.
bench-pin:
	+@$(MAKE) FLAVOUR=release B=build/release build/release/tests/bench/pin
	@mkdir -p $(BENCH_OUT)
	@build/release/tests/bench/pin $(BENCH_OUT) $(PIN_MIB)
bench-scale: bench-need
	+@$(MAKE) FLAVOUR=release B=build/release bench-program
	@mkdir -p $(BENCH_OUT)
	@build/release/tests/bench/bench scale $(BENCH_OUT)
bench-instr: bench-need
	@tests/need.sh valgrind
	+@$(MAKE) FLAVOUR=release B=build/release bench-program
	@mkdir -p $(BENCH_OUT)
	@tests/bench/instr.sh build/release/tests/bench/bench $(BENCH_OUT)

# make replay TRACE=FILE [SUBJECT=…] [CONF=key:value,…] [AGAINST=key:value,…] [LAG=4]
replay:
	@[ -n '$(TRACE)' ] || { echo 'make replay TRACE=FILE [SUBJECT=...] [CONF=key:value,...] [LAG=n]' >&2; exit 2; }
	+@$(MAKE) FLAVOUR=release B=build/release \
	    $(if $(filter cub,$(SUBJECT)),bench-program,build/release/tests/bench/replay)
	@build/release/tests/bench/replay '$(TRACE)' $(or $(SUBJECT),warmpool) 'conf=$(CONF)' $(if $(AGAINST),'against=$(AGAINST)') lag=$(or $(LAG),4)

-include $(BENCH_OBJ:.o=.d)
.PHONY: replay bench bench-quick bench-axes bench-peers bench-grow bench-pin bench-staging bench-held bench-scale bench-instr bench-need bench-program
