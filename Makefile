# warmpool: `make help` lists the targets.
.DEFAULT_GOAL := all
MAKEFLAGS += --no-builtin-rules
SHELL := /bin/bash

CC      ?= gcc
FLAVOUR ?= debug
B       ?= build/$(FLAVOUR)
V       ?= 0
Q       := $(if $(filter 1,$(V)),,@)

# CUDA=no leaves CUDA out; CUDA_HOME says where its headers are.
CUDA_HOME ?= $(firstword $(patsubst %/include/cuda_runtime_api.h,%,$(wildcard \
    /usr/local/cuda/include/cuda_runtime_api.h \
    /opt/cuda/include/cuda_runtime_api.h /usr/include/cuda_runtime_api.h)))
HAVE_CUDA := $(if $(filter no,$(CUDA)),,$(wildcard $(CUDA_HOME)/include/cuda_runtime_api.h))
CUDA_FLAGS := $(if $(HAVE_CUDA),-isystem $(CUDA_HOME)/include,-DWM_NO_CUDA)

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
    -Wmissing-prototypes -Wcast-qual -Wundef -Wvla -Wformat=2 -Wswitch-enum \
    -Wimplicit-fallthrough -Wnull-dereference $(if $(CI),-Werror)
OPT_debug   := -O1 -g
OPT_release := -O2 -g -DNDEBUG
OPT_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
OPT_tsan    := -O1 -g -fsanitize=thread
OPT_cov     := -O0 -g --coverage
FLAGS := -std=c17 -D_GNU_SOURCE -fPIC -fvisibility=hidden -pthread $(WARN) \
    $(OPT_$(FLAVOUR)) -I. -Iinclude -MMD -MP
LIBS  := -pthread -ldl

LIB_SRC := $(wildcard runtime/*.c runtime/*/*.c handles/*.c alloc/*.c)
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
STATIC  := $(B)/libwarmpool.a
SHARED  := $(B)/libwarmpool.so.0

all: $(STATIC) $(SHARED)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(if $(filter 1,$(V)),,@echo "cc   $<")
	$(Q)$(CC) $(FLAGS) $(CUDA_FLAGS) $(CFLAGS) -c $< -o $@

$(STATIC): $(LIB_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

$(SHARED): $(LIB_OBJ) runtime/warmpool.map
	$(Q)$(CC) -shared $(OPT_$(FLAVOUR)) $(LDFLAGS) -Wl,-soname,libwarmpool.so.0 \
	    -Wl,--version-script=runtime/warmpool.map -Wl,-z,defs -Wl,-z,nodelete \
	    $(LIB_OBJ) $(LIBS) -o $@
	$(Q)ln -sf libwarmpool.so.0 $(B)/libwarmpool.so

# Tests: tests/api sees the shared library only, the others the internals.
CHECK_LIBS := $(shell pkg-config --libs check 2>/dev/null)
TEST_SRC := $(wildcard tests/unit/check_*.c tests/fault/check_*.c tests/stress/check_*.c tests/model/check_*.c)
API_SRC  := $(wildcard tests/api/check_*.c)
TEST_BIN := $(TEST_SRC:%.c=$(B)/%) $(API_SRC:%.c=$(B)/%)

WT_OBJ := $(B)/tests/wt.o $(B)/tests/wt_runtime.o
WT := $(B)/tests/libwt.a
$(WT): $(WT_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

$(TEST_SRC:%.c=$(B)/%): $(B)/%: $(B)/%.o $(WT) $(STATIC)
	$(Q)$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $^ $(CHECK_LIBS) $(LIBS) -o $@

$(API_SRC:%.c=$(B)/%): $(B)/%: $(B)/%.o $(WT) $(SHARED)
	$(Q)$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $(filter %.o,$^) $(WT) -L$(B) -lwarmpool -Wl,-rpath,'$$ORIGIN/../..' \
	    $(CHECK_LIBS) $(LIBS) -o $@

$(B)/tests/%: FLAGS += -Itests

check: $(TEST_BIN)
	$(Q)for t in $(TEST_BIN); do $$t || exit 1; done

clean:
	rm -rf build

-include $(LIB_OBJ:.o=.d) $(TEST_BIN:=.d) $(WT_OBJ:.o=.d)
.PHONY: all check clean
.SECONDARY:
