# lint.mk: the rules of the house, one target each; `make lint` runs them all
# and says at the end which failed.

# Those of one core, and those of all: the first run beside the others. What
# looks at the library comes after who builds it as well, in CI.
LINTS_LIGHT := format includes words marks lines budget headers init help readme scripts tools
LINTS_HEAVY := gcc floors symbols globals tls clang cppcheck tidy
LINTS := $(LINTS_LIGHT) $(LINTS_HEAVY)

C_FILES   := $(shell tests/tools/files.sh '*.c' '*.h')
CPP_FILES := include/warmpool/warmpool.hpp tests/api/cpp_program.cpp \
    runtime/python/python_buffer.cpp runtime/python/python_entry.cpp \
    tests/python/entry_program.cpp
# The library's: the installed tools are programs.
LIB_FILES := $(filter-out runtime/tools/% runtime/preload/%,$(filter include/% runtime/% \
    handles/% alloc/%,$(C_FILES)))
SCRIPTS   := $(shell tests/tools/files.sh '*.sh' run)
L := build/lint

LINT_NEED := clang clang-format clang-tidy cppcheck shellcheck
lint:
	@tests/need.sh $(CHECK_NEED) $(LINT_NEED)
	+@tests/tools/steps.sh '$(LINTS_HEAVY:%=lint-%)' \
	    '$(LINTS_LIGHT:%=lint-%)'

lint-format:
	@clang-format --dry-run -Werror $(C_FILES) $(CPP_FILES)

lint-includes:
	@awk -f tests/tools/includes.awk tests/tools/floors.txt $(LIB_FILES)

lint-words:
	@tests/tools/words.sh $(LIB_FILES)

# The words are put together here, or this line would be found.
lint-marks:
	@! tests/tools/files.sh '*' | xargs grep -InE 'TO''DO|FIX''ME|X''XX'

lint-lines:
	@tests/tools/lines.sh

lint-budget:
	@tests/tools/budget.sh tests/tools/budget.txt \
	    $(filter alloc/% handles/% runtime/%,$(C_FILES))

lint-headers:
	@tests/tools/headers.sh $(CUDA_FLAGS)

lint-init:
	@tests/tools/init.sh

lint-help:
	@tests/tools/help.sh

lint-readme:
	@tests/tools/readme.sh

lint-scripts:
	@shellcheck -x $(SCRIPTS)

lint-tools:
	@mkdir -p $(L) && tests/run.sh -l $(L)/log -t $(LIMIT) $(TOOL_TESTS:%=host:%) >$(L)/tools.out \
	    2>&1 || { cat $(L)/tools.out; exit 1; }

lint-floors: $(STATIC)
	@tests/tools/floors.sh $(STATIC)

lint-symbols: $(SHARED)
	@tests/tools/symbols.sh $(SHARED)

lint-globals: $(SHARED)
	@tests/tools/globals.sh $(SHARED) tests/globals.txt

lint-tls: $(SHARED)
	@tests/tools/tls.sh $(SHARED)

# Both compilers, both ways of building, every program: no warning. What a
# whole run of everything needs to have built is not built twice. What clang
# says does not depend on -O, and nothing of it is run: without what costs.
lint-gcc: LINT_CC = $(if $(findstring Free Software,$(shell $(CC) --version)),$(CC),gcc)
lint-gcc: LINT_B = $(if $(CI),build/,$(L)/gcc-)
lint-clang: LINT_CC = clang
lint-clang: LINT_B = $(L)/clang-
lint-clang: LINT_DEBUG = CFLAGS='-O0 -g0 $(CFLAGS)'
lint-clang: LINT_RELEASE = CFLAGS='-g0 $(CFLAGS)'
lint-gcc lint-clang:
	+@$(MAKE) -k CI=1 CC=$(LINT_CC) $(LINT_DEBUG) FLAVOUR=debug \
	    B=$(LINT_B)debug all test-programs
	+@$(MAKE) -k CI=1 CC=$(LINT_CC) $(LINT_RELEASE) FLAVOUR=release \
	    B=$(LINT_B)release all \
	    $(if $(wildcard examples/examples.mk),examples) \
	    $(if $(wildcard tests/bench/bench.mk),bench-program)

# One stamp a file, so that only what has changed is looked at again. Each in
# a run of its own: clang-tidy 14 takes va_lists for uninitialised otherwise.
TIDY_RULES := $(shell tests/tools/files.sh .clang-tidy)
# Of packages that few have: what includes their headers is left out without;
# ggml's come with `make check-ggml`.
TIDY_MPI := $(shell mpicc --showme:compile 2>/dev/null | sed 's/-I/-isystem /g')
TIDY_GGML := build/wheels/ggml/libggml/include
TIDY_OUT := $(if $(TIDY_MPI),,examples/data_parallel/ranks.c) \
    $(if $(wildcard /usr/include/ucp/api/ucp.h),,examples/ucx_register/ucx_register.c) \
    $(if $(wildcard $(TIDY_GGML)),,$(wildcard examples/ggml/*.c))
TIDY_OK := $(patsubst %,$(L)/tidy/%.ok,$(filter-out $(TIDY_OUT),$(filter %.c,$(C_FILES))))
TIDY_FLAGS = $(filter-out -DNDEBUG,$(filter -D% -I% -std=%,$(FLAGS))) \
    $(CUDA_FLAGS) $(TIDY_MPI) -Itests -Itests/standin -isystem $(TIDY_GGML) \
    -isystem tests/vendor
lint-tidy: $(TIDY_OK)
	@for file in $(TIDY_OUT); do echo "skip: clang-tidy of $$file: its header is not installed"; done

$(L)/tidy/%.ok: % $(TIDY_RULES) $(filter %.h,$(C_FILES))
	@mkdir -p $(@D)
	@clang-tidy --quiet $< -- $(TIDY_FLAGS) >$@.out 2>/dev/null \
	    || { cat $@.out; exit 1; }
	@mv $@.out $@

lint-cppcheck:
	@mkdir -p $(L)/cppcheck
	@cppcheck --quiet --std=c11 --inline-suppr --error-exitcode=1 \
	    --enable=warning,performance,portability \
	    --suppress=missingIncludeSystem -D__linux__ -D__LP64__ -D__GLIBC__=2 \
	    -D_GNU_SOURCE -I. -Iinclude -Itests \
	    --cppcheck-build-dir=$(L)/cppcheck -j 2 \
	    $(wildcard runtime handles alloc tests examples)

format:
	@clang-format -i $(C_FILES) $(CPP_FILES)

.PHONY: lint format $(LINTS:%=lint-%)
