# warmpool. `make help` lists the targets; README.md says how to start.
#
#   make [V=1] [FLAVOUR=…] [CUDA=no | CUDA_HOME=dir] [CC=…] [CI=1] [target]
#
# Flavours: debug (tests), release (everything else), asan, tsan, cov, cover,
# fuzz. What is built lies in build/<flavour>/. CI=1 makes warnings errors;
# INSTALL=no installs nothing (tests/need.sh). Parts of the tree bring rules of
# their own and use the variables of this file: tests/standin/standin.mk,
# tests/gpu/gpu.mk and examples/examples.mk among them.
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules --no-print-directory
SHELL := /bin/bash
$(if $(word 2,$(CURDIR)),$(error $(CURDIR): the name of this folder, or of one \
    above it, has a space, which make cannot work with: move the tree))

# ---- what to build, and where ---------------------------------------------

# A goal below build/<flavour>/ says its flavour itself.
GIVEN_FLAVOUR := $(FLAVOUR)
FLAVOUR ?= $(or $(word 2,$(subst /, ,$(filter build/%,$(MAKECMDGOALS)))),release)
TEST_FLAVOUR := $(or $(GIVEN_FLAVOUR),debug)
B ?= build/$(FLAVOUR)
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '%-5s%s\n' $(1) $(2))

# The version stands in the header only.
version = $(shell sed -n 's/^.define WARM_VERSION_$(1) //p' include/warmpool/base.h)
MAJOR   := $(call version,MAJOR)
VERSION := $(MAJOR).$(call version,MINOR).$(call version,PATCH)

# CUDA's headers are compiled against where they are found; its libraries are
# never linked, only loaded at run time.
CUDA_HOME ?= $(firstword $(patsubst %/include/cuda_runtime_api.h,%,$(wildcard \
    /usr/local/cuda/include/cuda_runtime_api.h \
    /opt/cuda/include/cuda_runtime_api.h /usr/include/cuda_runtime_api.h)))
HAVE_CUDA := $(if $(filter no,$(CUDA)),,$(wildcard \
    $(CUDA_HOME)/include/cuda_runtime_api.h))
# A wrong folder must not become a library without CUDA.
$(if $(and $(filter-out file,$(origin CUDA_HOME)),$(CUDA_HOME),$(filter-out .no,.$(CUDA)), \
    $(filter-out clean help,$(or $(MAKECMDGOALS),all))),$(if $(HAVE_CUDA),, \
    $(error CUDA_HOME=$(CUDA_HOME): no include/cuda_runtime_api.h there: name \
    the folder of CUDA, or say CUDA=no)))
CUDA_FLAGS := $(if $(HAVE_CUDA),-isystem $(CUDA_HOME)/include,-DWM_NO_CUDA)

CUDA_VERSION = $(shell awk '/define CUDART_VERSION/ { print int($$3 / 1000) \
    "." int($$3 % 1000 / 10); exit }' $(HAVE_CUDA))

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
    -Wmissing-prototypes -Wcast-qual -Wundef -Wvla -Wformat=2 -Wswitch-enum \
    -Wimplicit-fallthrough -Wnull-dereference \
    -Werror=implicit-function-declaration $(if $(CI),-Werror)
OPT_debug   := -O1 -g
# Debian's packages are hardened: lintian and readers look for it.
OPT_release := -O2 -g -DNDEBUG -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
LINK_release := -Wl,-z,relro -Wl,-z,now
# Wherever the tree lies, the same files come out. The compiler names that folder
# as the shell does, which is not CURDIR if the way there has a symbolic link.
MAP_release := -ffile-prefix-map="$$PWD"=.
MAP_cover   := $(MAP_release)
OPT_asan    := -O1 -g -fsanitize=address,undefined \
    -fno-sanitize-recover=all -fno-omit-frame-pointer
OPT_tsan    := -O1 -g -fsanitize=thread
OPT_cov     := -O0 -g --coverage
OPT_cover   := -O0 -g
OPT_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined \
    -fno-sanitize-recover=all -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
ifeq ($(origin OPT_$(FLAVOUR)),undefined)
$(error FLAVOUR=$(FLAVOUR): use debug, release, asan, tsan, cov, cover or fuzz)
endif
FLAGS := -std=c17 -D_GNU_SOURCE -fPIC -fvisibility=hidden -pthread $(WARN) \
    $(OPT_$(FLAVOUR)) $(MAP_$(FLAVOUR)) -I. -Iinclude -MMD -MP
LIBS  := -pthread -ldl $(LINK_$(FLAVOUR))

# What a test reaches, for tests/mutants: in the library alone.
LIB_SRC_cover := tests/mutants/cover.c

# ---- library --------------------------------------------------------------

LIB_SRC := $(filter-out runtime/tools/% runtime/preload/%,$(wildcard runtime/*.c runtime/*/*.c \
    handles/*.c handles/*/*.c alloc/*/*.c)) $(LIB_SRC_$(FLAVOUR))
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o) $(B)/runtime/page_html.o
STATIC  := $(B)/libwarmpool.a
SHARED  := $(B)/libwarmpool.so.$(MAJOR)
MAP     := runtime/warmpool.map
comma   := ,
# clang leaves the sanitizers' own symbols to the program.
Z_DEFS  := $(if $(filter asan tsan fuzz,$(FLAVOUR)),,-Wl$(comma)-z$(comma)defs)

all: say-cuda $(STATIC) $(SHARED) $(B)/warmpool-info preload

# Also of a build whose output nobody reads: install and deb come by here.
say-cuda:
	@echo $(if $(HAVE_CUDA),'cuda with CUDA $(CUDA_VERSION) ($(CUDA_HOME))', \
	    'cuda without CUDA: $(if $(filter no,$(CUDA)),CUDA=no,no headers of it \
	    are found; CUDA_HOME names its folder)')

# Whatever was compiled with other flags is compiled again, and everything once a
# header is there that the library uses if it is. A target on which the library
# does not run is refused here, once, before anything is compiled.
FLAGS_TEXT := $(CC) $(FLAGS) $(CUDA_FLAGS) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS)
OPTIONAL := grep -rhoE '__has_include\(<[^>]+' handles runtime | LC_ALL=C sort -u | \
    sed 's/.*<\(.*\)/\#if __has_include(<\1>)\n\1\n\#endif/' | \
    $(CC) $(CUDA_FLAGS) $(CPPFLAGS) -E -P -x c - | tr '\n' ' '
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@command -v $(firstword $(CC)) >/dev/null || { \
	    echo 'make: $(firstword $(CC)): no C compiler: install gcc and' \
	    'libc6-dev, or name one: CC=clang' >&2; exit 1; }
	@text='$(FLAGS_TEXT) with '$$($(OPTIONAL)); \
	echo "$$text" | cmp -s - $@ || { \
	    $(CC) -Iinclude $(CPPFLAGS) $(CFLAGS) -x c -fsyntax-only \
	    include/warmpool/base.h \
	    && echo "$$text" >$@; }

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,cc,$<)
	$(Q)$(CC) $(FLAGS) $(CUDA_FLAGS) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

$(if $(LIB_SRC_$(FLAVOUR)),$(eval $(LIB_OBJ): private FLAGS += -fsanitize-coverage=trace-pc))

# The page to look at becomes an array of bytes.
$(B)/runtime/page_html.c: runtime/page.html
	@mkdir -p $(@D)
	@{ echo '#include "runtime/page.h"'; \
	    echo 'const unsigned char wm_page_html[] = {'; \
	    od -An -v -tu1 $< | sed 's/[0-9][0-9]*/&,/g'; echo '0};'; } >$@

$(B)/runtime/page_html.o: $(B)/runtime/page_html.c $(B)/flags
	$(call say,cc,$<)
	$(Q)$(CC) $(FLAGS) $(CUDA_FLAGS) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

$(STATIC): $(LIB_OBJ)
	$(call say,ar,$@)
	$(Q)rm -f $@ && ar rcsD $@ $(LIB_OBJ)

$(SHARED): $(LIB_OBJ) $(MAP)
	$(call say,ld,$@)
	$(Q)$(CC) -shared $(OPT_$(FLAVOUR)) $(LDFLAGS) \
	    -Wl,-soname,libwarmpool.so.$(MAJOR) -Wl,--version-script=$(MAP) \
	    $(Z_DEFS) -Wl,-z,nodelete $(LIB_OBJ) $(LIBS) -o $@
	$(Q)ln -sf libwarmpool.so.$(MAJOR) $(B)/libwarmpool.so

# Installed programs hold the library: nothing says where they would find it.
$(B)/warmpool-info: $(B)/runtime/tools/warmpool_info.o $(STATIC)
	$(call say,ld,$@)
	$(Q)$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $^ $(LIBS) -o $@

# ---- test programs --------------------------------------------------------

# Those of tests/unit see the library's insides; all others see the public
# headers and the shared library.
CHECK_LIBS := $(shell pkg-config --libs check 2>/dev/null) -ljansson
TEST_SRC := $(sort $(shell find tests/unit -name 'check_*.c'))
# Long ones first: they run beside the many short ones.
API_SRC  := $(foreach folder,model stress fault api, \
    $(sort $(wildcard tests/$(folder)/check_*.c)))
TEST_BIN := $(TEST_SRC:%.c=$(B)/%) $(API_SRC:%.c=$(B)/%)
WT_OBJ   := $(patsubst %.c,$(B)/%.o,$(wildcard tests/wt*.c))
WT       := $(B)/tests/libwt.a

$(B)/tests/%: private FLAGS += -Itests -Wno-unused-parameter

$(WT): $(WT_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

# One that has parts: they lie beside it.
MODEL_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/model/model_*.c))
$(B)/tests/model/check_memory_model: $(MODEL_OBJ)

$(TEST_SRC:%.c=$(B)/%): $(B)/%: $(B)/%.o $(WT) $(STATIC)
	$(call say,ld,$@)
	$(Q)$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $^ $(CHECK_LIBS) $(LIBS) -o $@

$(API_SRC:%.c=$(B)/%): $(B)/%: $(B)/%.o $(WT) $(SHARED)
	$(call say,ld,$@)
	$(Q)$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $(filter %.o,$^) $(WT) -L$(B) -lwarmpool \
	    -Wl,-rpath,'$$ORIGIN/../..' $(CHECK_LIBS) $(LIBS) -o $@

# ---- running tests --------------------------------------------------------

# A program runs on the host device and on the stand-in; one of tests/unit only
# on the host device, unless it says `backends: …standin…` in a comment (and
# only on the stand-in, if the comment leaves host out).
says = $(shell grep -lE 'backends:.*\b$(1)\b' $(TEST_SRC) /dev/null)
ONLY_STANDIN := $(filter-out $(call says,host),$(call says,standin))
HOST_TESTS := $(filter-out $(ONLY_STANDIN),$(TEST_SRC)) $(API_SRC)
STANDIN := $(and $(HAVE_CUDA),$(wildcard tests/standin/standin.mk))
STANDIN_TESTS := $(if $(STANDIN),$(call says,standin) $(API_SRC))
TOOL_TESTS := $(wildcard tests/tools/test_*.sh)
# What is built with the library as users would, where no sanitizer is.
USER_TESTS := $(wildcard tests/api/test_*.sh)
# Seconds that one program may take: what ends those that hang, and nothing
# that is slow since others are about. run.sh adds what it adds up to.
LIMIT ?= 300
JOBS  ?= $(shell nproc)
RUN = tests/run.sh -l $(B)/log -s $(CURDIR)/$(B)/standin -j $(JOBS)
HOST_RUNS := $(HOST_TESTS:%.c=host:$(B)/%)
STANDIN_RUNS := $(STANDIN_TESTS:%.c=standin:$(B)/%)

# intercept_tls_get_addr: LeakSanitizer of gcc 12 crashes on the thread-local
# storage of libraries that were loaded late. die_after_fork: tests fork.
ASAN_SET := detect_stack_use_after_return=1:strict_string_checks=1
# atexit_sleep_ms: a second for each test with a thread left, else.
TSAN_SET := halt_on_error=1:die_after_fork=0:atexit_sleep_ms=50
SANITIZER_OPTIONS := \
    ASAN_OPTIONS=$(ASAN_SET):intercept_tls_get_addr=0 \
    UBSAN_OPTIONS=print_stacktrace=1 \
    LSAN_OPTIONS=suppressions=$(CURDIR)/tests/lsan.supp:print_suppressions=0 \
    TSAN_OPTIONS=$(TSAN_SET):suppressions=$(CURDIR)/tests/tsan.supp

test-programs: $(TEST_BIN) $(B)/warmpool-info preload $(if $(STANDIN),standin)

run-tests: test-programs
	$(if $(STANDIN),,@echo 'skip: tests on the stand-in CUDA libraries:' \
	    '$(if $(filter no,$(CUDA)),CUDA=no,no CUDA headers found (CUDA_HOME))')
	@rm -rf $(B)/log/host $(B)/log/standin
	@WT_STATIC=$(STATIC) WT_LINK='$(OPT_$(FLAVOUR))' $(SANITIZER_OPTIONS) \
	    $(RUN) -t $(LIMIT) $(SCHED_RUNS) $(HOST_RUNS) $(STANDIN_RUNS) \
	    $(TOOL_TESTS:%=host:%) $(if $(TOOL_TESTS),$(USER_TESTS:%=host:%))

CHECK_NEED := pkg-config check libsubunit-dev libjansson-dev
need-check:
	@CC='$(CC)' tests/need.sh $(CHECK_NEED)

check: need-check
	+@$(MAKE) FLAVOUR=$(TEST_FLAVOUR) run-tests

# Goes on after what fails; N mutants are drawn anew each day.
LONG := run-load faults fuzz schedules soak mutants check-arm
check-long: need-check
	+@failed=; for goal in $(LONG); do \
	    echo "== $$goal"; \
	    $(MAKE) N=$(or $(N),100) SEED=$(or $(SEED),$(shell date +%j)) $$goal \
	        || failed="$$failed $$goal"; \
	done; \
	[ -z "$$failed" ] || { echo "check-long: failed:$$failed" >&2; exit 1; }

run-load: need-check
	+@WT_SCALE=1000 $(MAKE) FLAVOUR=$(TEST_FLAVOUR) LIMIT=3600 run-tests

asan: need-check
	+@WT_SCALE=$${WT_SCALE:-30} $(MAKE) FLAVOUR=asan B=build/asan \
	    LIMIT=900 TOOL_TESTS= run-tests

tsan: need-check
	+@WT_SCALE=$${WT_SCALE:-12} $(MAKE) FLAVOUR=tsan B=build/tsan \
	    LIMIT=900 TOOL_TESTS= run-tests

# As a kernel with pages of 64 KiB would run the tests that see the library from
# outside: page64.c is preloaded. Programs that they start have pages of 4 KiB.
PAGE64 := $(B)/tests/tools/libpage64.so
$(PAGE64): $(B)/tests/tools/page64.o
	$(call say,ld,$@)
	$(Q)$(CC) -shared $(OPT_$(FLAVOUR)) $(LDFLAGS) $< -ldl -o $@

run-page64: $(API_SRC:%.c=$(B)/%) $(PAGE64)
	@CK_EXCLUDE_TAGS=programs $(RUN) -t $(LIMIT) -b page64 \
	    -w 'env LD_PRELOAD=$(CURDIR)/$(PAGE64)' $(API_SRC:%.c=host:$(B)/%)

check-page64: need-check
	+@WT_SCALE=$${WT_SCALE:-5} $(MAKE) FLAVOUR=$(TEST_FLAVOUR) run-page64

# For aarch64, under an emulator, whose pages are of 4 KiB and then of 64 KiB.
# Programs that a test starts would not be emulated.
ARM_CC := aarch64-linux-gnu-gcc
ARM_NEED := pkg-config gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user \
    check:arm64 libsubunit-dev:arm64 libjansson-dev:arm64
run-arm: $(HOST_TESTS:%.c=$(B)/%)
	@failed=; for page in 4096 65536; do echo "pages of $$page:"; \
	    CK_EXCLUDE_TAGS=programs CK_TIMEOUT_MULTIPLIER=4 $(RUN) -t 1200 -b arm-$$page \
	        -w "qemu-aarch64 -p $$page" $(HOST_RUNS) || failed=1; \
	done; [ -z "$$failed" ]

check-arm:
	@tests/need.sh $(ARM_NEED)
	+@WT_SCALE=$${WT_SCALE:-1} $(MAKE) FLAVOUR=debug B=build/arm CC=$(ARM_CC) \
	    CUDA=no run-arm

# With three devices, the program's first being the last, and a second runtime
# and thread in the process: others.c. Programs that count those, whose other
# process has one device, or that have all that themselves or must not (those of
# model/), are left out; others.txt has single tests.
OTHERS := $(B)/tests/tools/libothers.so
OTHERS_SRC := $(filter-out %/check_exit.c %/check_watch.c %/check_matrix.c \
    tests/model/%,$(API_SRC))
$(OTHERS): $(B)/tests/tools/others.o
	$(call say,ld,$@)
	$(Q)$(CC) -shared $(OPT_$(FLAVOUR)) $(LDFLAGS) $< -ldl -o $@

run-others: $(OTHERS_SRC:%.c=$(B)/%) $(OTHERS) $(if $(STANDIN),standin)
	@CK_EXCLUDE_TAGS=programs WT_LEAVE_OUT=$(CURDIR)/tests/tools/others.txt \
	    $(RUN) -t $(LIMIT) -b others -w 'env LD_PRELOAD=$(CURDIR)/$(OTHERS)' \
	    $(OTHERS_SRC:%.c=host:$(B)/%) \
	    $(if $(STANDIN),$(OTHERS_SRC:%.c=standin:$(B)/%))

check-others: need-check
	+@WT_SCALE=$${WT_SCALE:-5} $(MAKE) FLAVOUR=$(TEST_FLAVOUR) run-others

# Memcheck follows each test's own process, so that a leak has a test's name. A
# program whose tests leave nothing behind may run them in one process, which
# costs a tenth: it says `memcheck: one process` in a comment. Memcheck does not
# follow programs that a test starts: tests that start some (cases tagged
# `programs`) run with the sanitizers.
MEMCHECK := valgrind -q --error-exitcode=99 --leak-check=full \
    --errors-for-leak-kinds=definite,indirect --show-leak-kinds=definite,indirect \
    --suppressions=tests/valgrind.supp --num-callers=20
MEMCHECK_SHARED = $(basename $(notdir \
    $(shell grep -lr 'memcheck: one process' $(TEST_SRC) $(API_SRC))))
# On the stand-in only what does not run on the host device: the sanitizers run
# the others there. First, since it takes longest.
run-valgrind: test-programs
	@CK_EXCLUDE_TAGS=programs $(RUN) -t 900 -b valgrind -w '$(MEMCHECK)' \
	    -n '$(MEMCHECK_SHARED)' \
	    $(filter-out $(HOST_RUNS:host:%=standin:%),$(STANDIN_RUNS)) \
	    $(HOST_RUNS)

valgrind:
	@tests/need.sh $(CHECK_NEED) valgrind
	+@WT_SCALE=$${WT_SCALE:-2} $(MAKE) FLAVOUR=debug B=build/debug \
	    run-valgrind

# What a request that misses passes: -O0, so that each function is one.
cold-path:
	@tests/need.sh valgrind
	+@$(MAKE) FLAVOUR=debug B=build/cold CFLAGS=-O0 build/cold/libwarmpool.a
	@tests/tools/cold_path.sh build/cold/libwarmpool.a $(LIST)

cov: need-check
	@tests/need.sh python3
	+@$(MAKE) FLAVOUR=cov B=build/cov run-tests
	@tests/tools/coverage.py build/cov

# Release: what a program sees. SOAK_S seconds; 600 say what a day would.
SOAK_S ?= 600
$(B)/tests/stress/soak: $(B)/tests/stress/soak.o $(SHARED)
	$(call say,ld,$@)
	$(Q)$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $< -L$(B) -lwarmpool \
	    -Wl,-rpath,'$$ORIGIN/../..' $(LIBS) -o $@

soak:
	+@$(MAKE) FLAVOUR=release B=build/release build/release/tests/stress/soak
	@build/release/tests/stress/soak $(SOAK_S)
	$(if $(wildcard examples/examples.mk),+@$(MAKE) soak-crowd)

# Every public call under every fault; check plays a part of it.
MATRIX := $(B)/tests/fault/check_matrix
FAULTS := $(B)/faults.txt
run-faults: $(MATRIX) $(if $(STANDIN),standin)
	@rm -f $(FAULTS)
	@WT_SCALE=300 WT_TABLE=$(CURDIR)/$(FAULTS) $(RUN) -t 1800 host:$(MATRIX) \
	    $(if $(STANDIN),standin:$(MATRIX))
	@echo '$(FAULTS): calls, faults and outcomes'

faults: need-check
	+@$(MAKE) FLAVOUR=$(TEST_FLAVOUR) run-faults

rows:
	@tests/tools/rows.sh tests/ROWS.md build

# ---- install --------------------------------------------------------------

prefix     ?= /usr/local
libdir     ?= $(prefix)/lib
includedir ?= $(prefix)/include
bindir     ?= $(prefix)/bin
DEST_LIB := $(DESTDIR)$(libdir)
DEST_INC := $(DESTDIR)$(includedir)/warmpool
DEST_BIN := $(DESTDIR)$(bindir)

# Below the prefix, so that pkg-config can move the whole tree.
below = $(patsubst $(prefix)/%,$${prefix}/%,$(1))

$(B)/warmpool.pc: runtime/warmpool.pc.in $(B)/flags FORCE
	@mkdir -p $(@D)
	@sed -e 's|@prefix@|$(prefix)|' -e 's|@version@|$(VERSION)|' \
	    -e 's|@libdir@|$(call below,$(libdir))|' \
	    -e 's|@includedir@|$(call below,$(includedir))|' \
	    $< >$@

# In the tree itself uninstall would remove the sources. The paths go into
# warmpool.pc, which is read from everywhere.
need-place:
	@for path in '$(prefix)' '$(libdir)' '$(includedir)' '$(bindir)'; do \
	    [[ $$path = /* || -z $$path ]] || { echo "install: $$path:" \
	        'give the whole path, from / on' >&2; exit 1; }; \
	done
	@[ ! '$(DEST_INC)' -ef include/warmpool ] || { echo 'install: $(prefix):' \
	    'that is the source tree: choose another prefix' >&2; exit 1; }

install: need-place all $(B)/warmpool.pc $(B)/tests/bench/replay install-packaging
	install -d $(DEST_LIB)/pkgconfig $(DEST_INC) $(DEST_BIN)
	install -m 644 include/warmpool/*.h include/warmpool/*.hpp $(DEST_INC)
	install -m 644 $(STATIC) $(DEST_LIB)
	install -m 755 $(SHARED) $(DEST_LIB)
	ln -sf libwarmpool.so.$(MAJOR) $(DEST_LIB)/libwarmpool.so
	install -m 644 $(B)/warmpool.pc $(DEST_LIB)/pkgconfig
	install -m 755 $(B)/warmpool-info $(DEST_BIN)
	install -m 755 $(B)/tests/bench/replay $(DEST_BIN)/warmpool-replay
	install -m 755 $(PRELOAD) $(DEST_LIB)
	install -m 755 $(B)/warmpool-run $(DEST_BIN)

uninstall: need-place uninstall-packaging
	rm -f $(DEST_LIB)/libwarmpool.a $(DEST_LIB)/libwarmpool.so \
	    $(DEST_LIB)/libwarmpool.so.$(MAJOR) \
	    $(DEST_LIB)/pkgconfig/warmpool.pc $(DEST_INC)/*.h $(DEST_INC)/*.hpp \
	    $(DEST_BIN)/warmpool-info $(DEST_BIN)/warmpool-replay \
	    $(DEST_BIN)/warmpool-run $(DEST_LIB)/libwarmpool-preload.so
	-rmdir $(DEST_INC)

include runtime/packaging/packaging.mk

# ---- lint: one target a rule, all of them run -------------------------------

include tests/tools/lint.mk

# ---- the rest ---------------------------------------------------------------

clean:
	rm -rf build

include runtime/preload/preload.mk runtime/python/python.mk
-include tests/standin/standin.mk tests/sched/sched.mk tests/mutants/mutants.mk \
    tests/fuzz/fuzz.mk tests/bench/bench.mk tests/gpu/gpu.mk
-include examples/examples.mk
-include $(LIB_OBJ:.o=.d) $(B)/runtime/tools/warmpool_info.d $(TEST_BIN:=.d) $(WT_OBJ:.o=.d) $(MODEL_OBJ:.o=.d)

## all            build the library, static and shared (release)
## wheel          build the Python package, in build/python/dist
## preload        build libwarmpool-preload.so and warmpool-run
## examples       build the examples
## demo           train a classifier, serve 10,000 images, compare with naive
## check          run the tests (debug; installs what they need on Debian)
## check-long     ten times the load, faults, fuzz, schedules, soak, mutants, arm
## faults         every call under every fault; writes build/debug/faults.txt
## check-arm      tests for aarch64 in an emulator, on pages of 4 and 64 KiB
## check-others   tests beside a second runtime, on the last of three devices
## check-page64   tests on pages of 64 KiB, as far as a preloaded library goes
## check-examples test the examples' server end to end
## check-ucx      test the example that registers memory with UCX
## check-guides   compile and run the code of the guides
## mpi            build data_parallel_mpi
## check-mpi      test the training on several ranks of MPI
## check-onnxruntime  run a session of ONNX Runtime in memory of warmpool
## check-ggml     compute a graph of ggml in buffers of warmpool
## check-packages test what is installed: pkg-config, CMake, pages, Debian
## check-page     look at the examples' server in headless Chromium
## check-python   test the Python package with NumPy and PyTorch (540 MB to get)
## check-gpu      run the tests on this machine's GPU
## gpu-bundle     collect tests and benches to run on another machine's GPU
## gpu-pack       pack them, the demo and the Python package into one file
## asan           run the tests under AddressSanitizer and UBSan
## tsan           run the tests under ThreadSanitizer
## valgrind       run the tests under memcheck
## cold-path      functions that a request that misses passes (LIST=list)
## cov            run the tests and print what they reach: lines, branches
## fuzz           inputs made by libFuzzer: FUZZ_S=60 seconds each, ONLY=
## mutants        change the library at random: N=20 SEED=1 FILE=
## check-mutants  changes that once were not noticed: N=10 SEED=1
## schedules      play scenarios of threads through WT_SCHEDULES=20000 schedules each
## soak           a mixed load for SOAK_S=600 seconds: nothing may pile up; soak-crowd
## soak-crowd     a thousand clients of the examples' server, SOAK_S / 5 seconds
## soak-server    the examples' server at its watermarks, SOAK_S=120 seconds
## lint           format, compilers, clang-tidy, cppcheck, house rules
## format         rewrite the C files in the house format
## bench          what things cost, beside yardsticks and peers
## bench-quick    the same in under 45 s
## bench-instr    instructions an operation (callgrind)
## bench-axes     what an operation costs beside what is held for it
## bench-peers    the same beside PyTorch, whose wheel it downloads, and CUB
## bench-held     what is held beside the least, by seed: SEEDS= ONLY= CONF=
## bench-grow     what memory costs to obtain, and who pays
## bench-staging  pageable memory copied through a staging ring
## bench-pin      how fast memory is page-locked, and who waits (PIN_MIB=8192)
## bench-scale    cost against live blocks, streams and threads
## replay         TRACE=FILE [CONF=…] [AGAINST=…]: what a program did, once more
## rows           rows of the contract, with the tests that show them
## standin        build the stand-ins for the CUDA libraries
## install        to $(DESTDIR)$(prefix); also: libdir, includedir, bindir
## install-strip  the same, without what only debuggers read
## man            manual pages, made from the headers
## html           the same as a reference to look at in a browser
## install-doc    install both, to mandir and docdir
## deb            Debian packages, in build/release/deb
## check-abi      what changed in the library's binary interface (abidiff)
## abi-release    write down that interface, for a release
## uninstall      take it away again
## clean          remove build/
## help           this list
help:
	@echo 'warmpool $(VERSION): make [V=1] [FLAVOUR=…] [CUDA=no] [INSTALL=no] target'
	@sed -n 's/^## /  /p' Makefile

FORCE:
.PHONY: all say-cuda test-programs run-tests need-check check check-long \
    run-load run-page64 check-page64 run-arm check-arm run-others check-others asan tsan \
    run-valgrind valgrind run-faults faults cold-path cov soak rows need-place install uninstall clean help FORCE
