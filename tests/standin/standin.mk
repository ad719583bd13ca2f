# standin.mk: stand-ins for the CUDA libraries, for tests only: never
# installed. Real sonames, compiled against the real headers, over the host
# device. `make standin` builds them into $(B)/standin; a program uses them
# through LD_LIBRARY_PATH=$(B)/standin or the options that name library paths.

STANDIN_DIR := $(B)/standin
STANDIN_HOST := $(wildcard runtime/host/host_*.c)
# Which toolkit the headers are of: sonames follow it.
STANDIN_MAJOR := $(if $(HAVE_CUDA),$(shell awk '/define CUDART_VERSION/ { print int($$3 / 1000); exit }' \
    $(CUDA_HOME)/include/cuda_runtime_api.h))

# soname of a library, if its header is there: $(call standin,header,soname)
standin = $(if $(wildcard $(CUDA_HOME)/include/$(1)),$(2))
STANDIN_cuda     := libcuda.so.1
STANDIN_cudart   := libcudart.so.$(STANDIN_MAJOR)
STANDIN_cublas   := $(call standin,cublas_v2.h,libcublas.so.$(STANDIN_MAJOR))
STANDIN_cublaslt := $(call standin,cublasLt.h,libcublasLt.so.$(STANDIN_MAJOR))
STANDIN_cudnn    := $(call standin,cudnn.h,libcudnn.so.9)
STANDIN_cusparse := $(call standin,cusparse.h,libcusparse.so.12)
STANDIN_cusolver := $(call standin,cusolverDn.h,libcusolver.so.$(if $(filter 12,$(STANDIN_MAJOR)),11,12))
# The same of version 12, in a folder of its own: some sonames are the same.
STANDIN_OLDER_cudart   := libcudart.so.12
STANDIN_OLDER_cublas   := libcublas.so.12
STANDIN_OLDER_cublaslt := libcublasLt.so.12
STANDIN_OLDER_cudnn    := $(STANDIN_cudnn)
STANDIN_OLDER_cusparse := $(STANDIN_cusparse)
STANDIN_OLDER_cusolver := libcusolver.so.11
STANDIN_HANDLES  := $(foreach l,cublas cublaslt cudnn cusparse cusolver,$(if $(STANDIN_$(l)),$(l)))

ifneq ($(and $(HAVE_CUDA),$(STANDIN_HOST)),)

STANDIN_LIBS := $(foreach l,cuda cudart $(STANDIN_HANDLES),$(STANDIN_DIR)/$(STANDIN_$(l))) \
    $(if $(filter-out 12,$(STANDIN_MAJOR)),$(foreach l,cudart $(STANDIN_HANDLES),$(STANDIN_DIR)/12/$(STANDIN_OLDER_$(l))))
STANDIN_MAP := tests/standin/standin.map
STANDIN_CORE := $(patsubst %.c,$(STANDIN_DIR)/%.o,$(wildcard runtime/base/*.c) runtime/driver/driver.c \
    $(STANDIN_HOST) $(wildcard runtime/driver/numa*.c) tests/standin/control.c tests/standin/context.c \
    tests/standin/life.c tests/standin/range.c tests/standin/wait.c tests/standin/work.c \
    tests/standin/attribute.c tests/standin/timing.c)
STANDIN_CUDART := $(patsubst %.c,$(STANDIN_DIR)/%.o,$(wildcard tests/standin/cudart*.c))
STANDIN_REST := $(STANDIN_DIR)/cudart_rest
STANDIN_OBJ := $(patsubst %.c,$(STANDIN_DIR)/%.o,$(wildcard tests/standin/*.c)) $(STANDIN_CORE)

# Objects of their own. What real headers declare must be visible; the map
# keeps the rest inside. Initial-exec, because LeakSanitizer guesses wrong at
# the thread-local memory of a library that dlopen() brought, and crashes.
$(STANDIN_DIR)/%.o: FLAGS += -fvisibility=default -ftls-model=initial-exec \
    -Wno-unused-parameter
$(STANDIN_DIR)/tests/standin/gemm.o: FLAGS += -O3
$(STANDIN_DIR)/%.o: %.c
	@mkdir -p $(@D)
	@$(CC) $(FLAGS) $(CUDA_FLAGS) $(CFLAGS) -c $< -o $@

$(STANDIN_REST).c: tests/standin/rest.sh $(STANDIN_CUDART)
	@CC='$(CC)' CUDA_FLAGS='$(CUDA_FLAGS)' $< cuda_runtime_api.h \
	    $(STANDIN_CUDART) >$@
$(STANDIN_REST).o: FLAGS += -fvisibility=default
$(STANDIN_REST).o: $(STANDIN_REST).c
	@$(CC) $(FLAGS) $(CUDA_FLAGS) $(CFLAGS) -c $< -o $@

# As NVIDIA's, each library has one version of its symbols, which is named like
# the library; libcuda has none.
# $(call standin_link,soname): of the objects and libraries in $^
standin_link = @mkdir -p $(@D); $(CC) -shared $(OPT_$(FLAVOUR)) $(LDFLAGS) -Wl,-soname,$(1) \
    -Wl,--version-script=<(sed '1s/^/$(if $(filter libcuda.so%,$(1)),,$(1) )/' $(STANDIN_MAP)) -Wl,-rpath,'$$ORIGIN:$$ORIGIN/..' $^ -lm $(LIBS) -o $@

$(STANDIN_DIR)/$(STANDIN_cuda): $(STANDIN_CORE)
	$(call standin_link,$(@F))

$(STANDIN_DIR)/version_12.o: FLAGS += -fvisibility=default -DSTANDIN_VERSION=12080
$(STANDIN_DIR)/version_12.o: tests/standin/version.c
	@mkdir -p $(@D)
	@$(CC) $(FLAGS) $(CUDA_FLAGS) $(CFLAGS) -c $< -o $@

# $(call standin_rules,folder,list of sonames,object with the version)
define standin_rules
$(1)/$($(2)_cudart): $(STANDIN_CUDART) $(STANDIN_REST).o $(3) $(STANDIN_DIR)/$(STANDIN_cuda)
	$$(call standin_link,$$(@F))
$(foreach l,$(STANDIN_HANDLES),$(call standin_rule,$(1),$($(2)_$(l)),$(l),$(1)/$($(2)_cudart) $(3)))
endef
# $(call standin_rule,folder,soname,library,cudart and the version)
define standin_rule
$(1)/$(2): $(STANDIN_DIR)/tests/standin/$(3).o $(if $(filter cublas,$(3)),$(STANDIN_DIR)/tests/standin/gemm.o) \
    $(4) $(STANDIN_DIR)/$(STANDIN_cuda)
	$$(call standin_link,$$(@F))

endef
$(eval $(call standin_rules,$(STANDIN_DIR),STANDIN,$(STANDIN_DIR)/tests/standin/version.o))
$(eval $(call standin_rules,$(STANDIN_DIR)/12,STANDIN_OLDER,$(STANDIN_DIR)/version_12.o))

standin: $(STANDIN_LIBS)
# The tests that load them themselves.
$(patsubst %.c,$(B)/%,$(shell grep -l standin_load.h -r tests/unit --include=check_*)): | \
    $(STANDIN_LIBS)
-include $(STANDIN_OBJ:.o=.d) $(STANDIN_DIR)/version_12.d

else
STANDIN_LIBS :=
standin:
	@echo "standin: skipped, $(if $(HAVE_CUDA),there is no host device,CUDA's headers were not found)"
endif
.PHONY: standin
