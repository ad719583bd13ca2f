# examples.mk: the examples, the demo and their test; included by Makefile.
#
#   make examples         programs in $(EX_BIN)
#   make demo             train, serve 10,000 images, compare (DEMO=options)
#   make check-examples   tests of the server
#   make soak-server    the server at its watermarks, SOAK_S seconds a phase
#   make soak-crowd     a thousand clients for SOAK_S / 5 seconds; part of `make soak`
#   make check-page       tests of its page, and screenshots
#   make check-ucx      the example that registers memory with UCX
#   make check-mpi      the training on several ranks of MPI
#   make check-onnxruntime  a session of ONNX Runtime in memory of warmpool
#   make check-ggml     a graph of ggml in buffers of warmpool
EX_BIN := $(B)/examples/bin
EX_NEED := libmicrohttpd-dev libdnnl-dev zlib1g-dev libpng-dev \
    libcurl4-openssl-dev libjansson-dev
DEMO_NEED := $(if $(findstring --data,$(DEMO)),,dataset-fashion-mnist)
EX_TSAN := TSAN_OPTIONS=halt_on_error=1:suppressions=$(CURDIR)/examples/tsan.supp

EX_MATHS  := $(addprefix common/,images maths maths_host maths_cuda model notes options usage)
EX_CLIENT := $(addprefix common/,images local options process)

EX_PROGRAMS := quickstart data_parallel inference_server demo soak_server
EX_CHECKS   := check_maths check_graphs check_server check_refusals check_slow check_limits check_crowd
EX_quickstart       := quickstart
EX_data_parallel    := $(addprefix data_parallel/,train step ranks_none) $(EX_MATHS)
EX_inference_server := $(addprefix inference_server/,server listener connections latency routes classify graphs decode) $(EX_MATHS)
EX_demo             := $(addprefix demo/,demo summary load) $(EX_CLIENT)
EX_soak_server      := $(addprefix demo/,soak load) $(EX_CLIENT)
EX_check_maths      := common/check_maths $(EX_MATHS)
EX_check_graphs     := inference_server/check_graphs inference_server/graphs $(EX_MATHS)
EX_check_server     := $(addprefix inference_server/,check_server served raw latency) demo/load $(EX_CLIENT)
EX_check_refusals   := $(addprefix inference_server/,check_refusals served raw) $(EX_CLIENT)
EX_check_limits     := $(addprefix inference_server/,check_limits served raw) demo/load $(EX_CLIENT)
EX_check_slow       := $(addprefix inference_server/,check_slow served raw listener) $(EX_CLIENT)
EX_check_crowd      := $(addprefix inference_server/,check_crowd served raw) $(EX_CLIENT)

EX_WARMPOOL := -L$(B) -lwarmpool -Wl,-rpath,'$$ORIGIN/../..'
EX_LIBS_quickstart       := $(EX_WARMPOOL)
EX_LIBS_data_parallel    := $(EX_WARMPOOL) -ldnnl -lgomp -lz -lm
EX_LIBS_inference_server := $(EX_WARMPOOL) -lmicrohttpd -lpng -ldnnl -lgomp -lz -lm
EX_LIBS_demo             := -lcurl -ljansson -lz
EX_LIBS_soak_server      := $(EX_LIBS_demo)
EX_LIBS_check_maths      := $(WT) $(EX_WARMPOOL) -ldnnl -lgomp -lz -lm $(CHECK_LIBS)
EX_LIBS_check_graphs     := $(EX_LIBS_check_maths)
EX_LIBS_check_server     := $(WT) $(EX_WARMPOOL) -lcurl -lpng -lz $(CHECK_LIBS)
EX_LIBS_check_refusals   := $(EX_LIBS_check_server)
EX_LIBS_check_limits     := $(EX_LIBS_check_server)
EX_LIBS_check_slow       := $(EX_LIBS_check_server)
EX_LIBS_check_crowd      := $(EX_LIBS_check_server)

ex_objects = $(EX_$(1):%=$(B)/examples/%.o)
EX_OBJECTS := $(sort $(foreach p,$(EX_PROGRAMS) $(EX_CHECKS),$(call ex_objects,$(p))))

# Packages first: the objects need their headers. A target that needs more than
# that names all of it at once, and goes on in a make of its own.
ex_need = @CC='$(CC)' tests/need.sh
$(EX_OBJECTS): | examples-need
examples-need:
	$(ex_need) $(EX_NEED)

define ex_rule
$(EX_BIN)/$(1): $(call ex_objects,$(1)) $(2) $(SHARED)
	@mkdir -p $$(@D)
	@echo "ld   $$@"
	$$(Q)$$(CC) $$(OPT_$$(FLAVOUR)) $$(LDFLAGS) $(call ex_objects,$(1)) \
	    $$(EX_LIBS_$(1)) $$(LIBS) -o $$@
endef
$(foreach p,$(EX_PROGRAMS),$(eval $(call ex_rule,$(p))))
$(foreach p,$(EX_CHECKS),$(eval $(call ex_rule,$(p),$(WT))))

examples: $(EX_PROGRAMS:%=$(EX_BIN)/%)

demo:
	$(ex_need) $(EX_NEED) $(DEMO_NEED)
	+@$(MAKE) run-demo

run-demo: examples preload standin
	@examples/demo/preload.sh $(B)
	@echo
	@$(EX_BIN)/demo --bin $(EX_BIN) $(DEMO)

# SOAK_S of the Makefile is for `make soak`. background:on: see demo/soak.c.
soak-server:
	$(ex_need) $(EX_NEED) $(DEMO_NEED)
	+@$(MAKE) run-soak-server

run-soak-server: $(EX_BIN)/soak_server $(EX_BIN)/inference_server \
    $(EX_BIN)/check.weights
	@WARMPOOL_CONF=$${WARMPOOL_CONF:-background:on} \
	    $(EX_BIN)/soak_server --bin $(EX_BIN) \
	    --seconds $(if $(filter file,$(origin SOAK_S)),120,$(SOAK_S))

soak-crowd:
	$(ex_need) $(sort $(CHECK_NEED) $(EX_NEED) $(DEMO_NEED))
	+@$(MAKE) FLAVOUR=release B=build/release run-soak-crowd

run-soak-crowd: $(EX_BIN)/check_crowd $(EX_BIN)/inference_server $(EX_BIN)/check.weights
	@CROWD_S=$$(($(SOAK_S) / 5)) $<

# A moment of training is enough to tell classes apart.
$(EX_BIN)/check.weights: $(EX_BIN)/data_parallel
	$(Q)$(SANITIZER_OPTIONS) $(EX_TSAN) $< --driver host --epochs 1 \
	    --batch 300 --weights $@

check-examples:
	$(ex_need) $(sort $(CHECK_NEED) $(EX_NEED) $(DEMO_NEED))
	+@$(MAKE) check-ucx
	+@$(MAKE) check-mpi
	+@$(MAKE) check-guides
	+@$(MAKE) check-onnxruntime
	+@$(MAKE) check-ggml
	+@$(MAKE) run-check-examples

run-check-examples: examples $(EX_CHECKS:%=$(EX_BIN)/%) \
    $(EX_BIN)/check.weights $(if $(STANDIN),standin)
	@$(SANITIZER_OPTIONS) $(EX_TSAN) tests/run.sh -l $(B)/log -t 600 \
	    -s $(CURDIR)/$(B)/standin $(EX_CHECKS:%=host:$(EX_BIN)/%) \
	    $(if $(STANDIN),$(EX_CHECKS:%=standin:$(EX_BIN)/%))

# UCX is the business of few: without it, and where it may not be installed, the
# target says so.
EX_UCX := $(EX_BIN)/ucx_register
check-ucx:
	+@CC='$(CC)' tests/need.sh libucx-dev \
	    || { echo 'skip: check-ucx: libucx-dev'; exit 0; }; \
	    $(MAKE) run-check-ucx

run-check-ucx: $(EX_UCX)
	@UCX_REGISTER=$(CURDIR)/$(EX_UCX) tests/run.sh -l $(B)/log -t 120 \
	    host:examples/ucx_register/check_ucx.sh

$(EX_UCX): $(B)/examples/ucx_register/ucx_register.o $(SHARED)
	@mkdir -p $(@D)
	@echo "ld   $@"
	$(Q)$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $< $(EX_WARMPOOL) -lucp -lucs \
	    $(LIBS) -o $@

check-guides: $(STATIC)
	@WT_STATIC=$(STATIC) WT_LINK='$(OPT_$(FLAVOUR))' tests/run.sh \
	    -l $(B)/log -t 200 host:examples/guides/check_guides.sh

# MPI, too: `make mpi` builds data_parallel_mpi, make check-mpi runs it.
EX_MPI := $(EX_BIN)/data_parallel_mpi
EX_MPI_OBJ := $(addprefix $(B)/examples/data_parallel/,train.o step.o ranks.o) \
    $(EX_MATHS:%=$(B)/examples/%.o)
mpi:
	$(ex_need) $(EX_NEED) libopenmpi-dev openmpi-bin
	+@$(MAKE) $(EX_MPI)

check-mpi:
	+@CC='$(CC)' tests/need.sh $(EX_NEED) $(DEMO_NEED) libopenmpi-dev openmpi-bin \
	    || { echo 'skip: check-mpi: libopenmpi-dev openmpi-bin'; exit 0; }; \
	    $(MAKE) run-check-mpi

run-check-mpi: $(EX_MPI) $(EX_BIN)/data_parallel
	@EX_BIN=$(CURDIR)/$(EX_BIN) tests/run.sh -l $(B)/log -t 300 \
	    host:examples/data_parallel/check_mpi.sh

$(B)/examples/data_parallel/ranks.o: private FLAGS += \
    $(shell mpicc --showme:compile 2>/dev/null | sed 's/-I/-isystem /g')
$(EX_MPI): $(EX_MPI_OBJ) $(SHARED)
	@mkdir -p $(@D)
	@echo "ld   $@"
	$(Q)$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $(EX_MPI_OBJ) \
	    $(EX_LIBS_data_parallel) $$(mpicc --showme:link) $(LIBS) -o $@

# ONNX Runtime (27 MB) and ggml (3 MB) are no packages of Debian 12: they come
# as wheels of Python, without the headers that tests/vendor/ restates in part.
# Without pip, or where nothing may be installed, the targets say so. They are
# built without the sanitizers, which then see half of what threads do.
EX_WHEELS := build/wheels
EX_ORT    := $(EX_BIN)/ort_session
EX_GGML   := $(EX_BIN)/ggml_tensors
EX_ORT_OBJ  := $(addprefix $(B)/examples/onnxruntime/,session.o model.o)
EX_GGML_OBJ := $(B)/examples/ggml/tensors.o
EX_ORT_LIB  := $(EX_WHEELS)/onnxruntime/onnxruntime/capi
EX_GGML_LIB := $(EX_WHEELS)/ggml/libggml/lib64
EX_GGML_INC := $(EX_WHEELS)/ggml/libggml/include
$(EX_ORT_OBJ): private FLAGS += -Itests/vendor
$(EX_GGML_OBJ): private FLAGS += -isystem $(EX_GGML_INC) -isystem tests/vendor
ex_unsanitized := $(if $(filter asan tsan,$(FLAVOUR)),false,true)

check-onnxruntime:
	+@$(ex_unsanitized) && tests/wheel.sh onnxruntime==1.32.0 $(EX_WHEELS)/onnxruntime \
	    || { echo 'skip: check-onnxruntime: onnxruntime, or a sanitizer'; exit 0; }; \
	    $(MAKE) run-check-onnxruntime

run-check-onnxruntime: $(EX_ORT)
	@ORT_SESSION=$(CURDIR)/$(EX_ORT) tests/run.sh -l $(B)/log -t 120 \
	    host:examples/onnxruntime/check_ort_session.sh

$(EX_ORT): $(EX_ORT_OBJ) $(SHARED)
	@mkdir -p $(@D)
	@ln -sf libonnxruntime.so.1.32.0 $(EX_ORT_LIB)/libonnxruntime.so.1
	@echo "ld   $@"
	$(Q)$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $(EX_ORT_OBJ) $(EX_WARMPOOL) \
	    -L$(EX_ORT_LIB) -l:libonnxruntime.so.1 \
	    -Wl,-rpath,$(CURDIR)/$(EX_ORT_LIB) $(LIBS) -o $@

check-ggml:
	+@$(ex_unsanitized) && tests/wheel.sh libggml-python==0.20.2.post1 $(EX_WHEELS)/ggml \
	    || { echo 'skip: check-ggml: libggml-python, or a sanitizer'; exit 0; }; \
	    $(MAKE) run-check-ggml

run-check-ggml: $(EX_GGML)
	@GGML_TENSORS=$(CURDIR)/$(EX_GGML) tests/run.sh -l $(B)/log -t 120 \
	    host:examples/ggml/check_ggml_tensors.sh

$(EX_GGML): $(EX_GGML_OBJ) $(SHARED)
	@mkdir -p $(@D)
	@echo "ld   $@"
	$(Q)$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $(EX_GGML_OBJ) $(EX_WARMPOOL) \
	    -L$(EX_GGML_LIB) -lggml -lggml-cpu -lggml-base \
	    -Wl,-rpath,$(CURDIR)/$(EX_GGML_LIB) $(LIBS) -o $@

# A browser is a large package: without one, and where none may be installed,
# the target says so.
check-page:
	@tests/need.sh chromium python3 \
	    || { echo 'skip: check-page: chromium and python3'; exit 0; }; \
	    $(MAKE) run-check-page

run-check-page: $(EX_BIN)/inference_server $(EX_BIN)/check.weights
	@python3 examples/inference_server/check_page.py $(EX_BIN) $(B)/page

-include $(EX_OBJECTS:.o=.d) $(B)/examples/data_parallel/ranks.d \
    $(B)/examples/ucx_register/ucx_register.d $(EX_ORT_OBJ:.o=.d) \
    $(EX_GGML_OBJ:.o=.d)
.PHONY: examples demo run-demo check-examples run-check-examples \
    check-page run-check-page check-ucx run-check-ucx mpi check-mpi \
    run-check-mpi check-guides check-onnxruntime run-check-onnxruntime \
    check-ggml run-check-ggml soak-server run-soak-server \
    soak-crowd run-soak-crowd examples-need
