# Inputs made by libFuzzer, which is clang's: `make fuzz [FUZZ_S=60] [ONLY=ipc]`
# plays each harness so many seconds, from the corpus here and what build/fuzz
# has found so far. What fails is printed and kept there: `build/fuzz/tests/fuzz/
# fuzz_NAME FILE` plays it again.
FUZZ := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_S ?= 60

# What a harness has beside the library.
FUZZ_trace  := tests/bench/steps tests/bench/trace_read
FUZZ_calls  := $(basename $(wildcard tests/model/model_*.c))
FUZZ_images := examples/inference_server/decode examples/common/images
FUZZ_LIBS_images := -lpng -lz
FUZZ_server := examples/common/images \
    $(addprefix examples/inference_server/,routes connections latency decode)
FUZZ_LIBS_server := -lmicrohttpd -lpng -lz

# fuzz.c's functions come before those of Check's static library (muldefs).
define fuzz_rule
$(B)/tests/fuzz/fuzz_$(1): $(patsubst %,$(B)/%.o,tests/fuzz/fuzz_$(1) tests/fuzz/fuzz $(FUZZ_$(1))) $(WT) $(STATIC)
	$$(call say,ld,$$@)
	$$(Q)$$(CC) $$(OPT_$$(FLAVOUR)) -fsanitize=fuzzer -Wl,-z,muldefs $$^ $(FUZZ_LIBS_$(1)) \
	    $$(CHECK_LIBS) $$(LIBS) -o $$@
endef
$(foreach name,$(FUZZ),$(eval $(call fuzz_rule,$(name))))

fuzz-programs: $(FUZZ:%=$(B)/tests/fuzz/fuzz_%)

fuzz: need-check
	@tests/need.sh clang libpng-dev zlib1g-dev libmicrohttpd-dev
	+@$(MAKE) FLAVOUR=fuzz CC=clang B=build/fuzz fuzz-programs
	@for name in $(or $(ONLY),$(FUZZ)); do \
	    mkdir -p build/fuzz/corpus/$$name tests/fuzz/corpus/$$name; \
	    echo "fuzz $$name"; \
	    WT_BACKEND=host build/fuzz/tests/fuzz/fuzz_$$name -verbosity=0 \
	        -print_final_stats=1 -max_total_time=$(FUZZ_S) \
	        -timeout=60 -max_len=8192 \
	        -artifact_prefix=build/fuzz/$$name- \
	        build/fuzz/corpus/$$name tests/fuzz/corpus/$$name || exit 1; \
	done

.PHONY: fuzz
