# gpu.mk: the tests of the public interface and the benches as programs that run
# on another machine, one with a GPU, from any folder: build/gpu-bundle holds
# them. gpu-pack adds the demo and the Python package, and makes one file of it.

GPU_BUNDLE := build/gpu-bundle
# Check's and jansson's static libraries, because the other machine may not have
# either; the compiler prints the bare name of one that it cannot find.
GPU_CHECK := $(firstword $(foreach l,libcheck_pic.a libcheck.a,$(filter /%,$(shell $(CC) -print-file-name=$(l) 2>/dev/null))))
GPU_SUBUNIT := $(filter /%,$(shell $(CC) -print-file-name=libsubunit.a 2>/dev/null))
GPU_JANSSON := $(filter /%,$(shell $(CC) -print-file-name=libjansson.a 2>/dev/null))
GPU_PROGRAMS := $(addprefix $(GPU_BUNDLE)/,$(basename $(notdir $(API_SRC))))
GPU_FILES := $(addprefix $(GPU_BUNDLE)/,first_day contend libwarmpool.so.0 run.sh calls.sh watch.sh tap.sh)
GPU_BENCH := $(addprefix $(GPU_BUNDLE)/,bench replay $(notdir $(BENCH_CUB)))
# A program that knows CUDA alone, linked as such programs are, and what serves it.
GPU_CUDA := $(firstword $(wildcard $(CUDA_HOME)/lib64/libcudart.so $(CUDA_HOME)/lib/libcudart.so))
GPU_PRELOAD := $(GPU_BUNDLE)/preload_gpu.sh $(GPU_BUNDLE)/preload_torch.py \
    $(addprefix $(GPU_BUNDLE)/preload/,warmpool-run libwarmpool-preload.so libwarmpool.so.0 $(if $(GPU_CUDA),preload_program ipc_program))
GPU_BENCH_FILES := $(GPU_BUNDLE)/torch_bench.py $(GPU_BUNDLE)/python_gpu.py $(GPU_BUNDLE)/libwarmpool_bench.so

# Tests are debug, with the checks of locks and arguments; benches are not, and
# have the library in them.
gpu-bundle: $(if $(HAVE_CUDA),need-check)
	+@$(MAKE) FLAVOUR=debug B=build/gpu gpu-bundle-files
	+@$(MAKE) FLAVOUR=release B=build/release gpu-bundle-bench
	@tests/gpu/glibc.sh $(GPU_BUNDLE)

gpu-pack: gpu-bundle
	$(ex_need) $(EX_NEED) $(DEMO_NEED)
	+@$(MAKE) FLAVOUR=release B=build/release gpu-bundle-demo
	+@$(MAKE) wheel
	@rm -rf $(GPU_BUNDLE)/python
	@python3 -m zipfile -e build/python/dist/*.whl $(GPU_BUNDLE)/python
	@tar -C build -cf - gpu-bundle | xz -T0 >build/gpu-bundle.tar.xz
	@echo "gpu-pack: $$(du -h build/gpu-bundle.tar.xz | tr '\t' ' ')"

gpu-bundle-files: $(if $(HAVE_CUDA),$(GPU_PROGRAMS) $(GPU_FILES),gpu-no-headers)
	@echo "gpu-bundle: $(words $(GPU_PROGRAMS)) programs in $(GPU_BUNDLE)"

gpu-bundle-bench: $(GPU_BENCH) $(GPU_BENCH_FILES) $(GPU_PRELOAD)
	@echo "gpu-bundle: benches:$(GPU_BENCH:$(GPU_BUNDLE)/%= %)"

# The demo with its images (unpacked under their names: xz makes less of them, and
# zlib reads them so), and with the libraries that another machine need not have.
# A C++ library is the other machine's own: CUDA's may need a newer one.
GPU_DEMO := $(GPU_BUNDLE)/demo
gpu-bundle-demo: $(addprefix $(B)/examples/bin/,data_parallel inference_server demo)
	@mkdir -p $(GPU_DEMO)/bin $(GPU_DEMO)/lib $(GPU_DEMO)/data
	@cp $^ $(GPU_DEMO)/bin
	@ldd $^ | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u \
	    | grep -Ev '/lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+)\.so' \
	    | xargs cp -Lft $(GPU_DEMO)/lib
	@for f in /usr/share/datasets/fashion-mnist/*.gz; do \
	    gunzip -c $$f >$(GPU_DEMO)/data/$${f##*/} || exit; done
	@echo "gpu-bundle: the demo"

gpu-no-headers:
	@echo "gpu-bundle: CUDA's headers were not found (CUDA_HOME)" >&2; exit 1

# Each from the objects of the program of that name.
$(foreach source,$(API_SRC),$(eval \
    $(GPU_BUNDLE)/$(basename $(notdir $(source))): $(source:%.c=$(B)/%.o)))
$(GPU_BUNDLE)/check_memory_model: $(MODEL_OBJ)
$(GPU_PROGRAMS): $(WT) $(SHARED)
	@mkdir -p $(@D)
	@$(if $(GPU_CHECK),,echo "gpu-bundle: no static libcheck" >&2; exit 1)
	@$(if $(GPU_JANSSON),,echo "gpu-bundle: no static libjansson" >&2; exit 1)
	@$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $(filter %.o,$^) $(WT) -L$(B) -lwarmpool \
	    -Wl,-rpath,'$$ORIGIN' $(GPU_CHECK) $(GPU_SUBUNIT) $(GPU_JANSSON) -lrt -lm $(LIBS) -o $@

$(GPU_BUNDLE)/first_day $(GPU_BUNDLE)/contend: $(GPU_BUNDLE)/%: $(B)/tests/gpu/%.o $(SHARED)
	@mkdir -p $(@D)
	@$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $< -L$(B) -lwarmpool -Wl,-rpath,'$$ORIGIN' \
	    $(LIBS) -o $@
$(GPU_BUNDLE)/libwarmpool.so.0: $(SHARED)
	@mkdir -p $(@D) && cp $< $@
$(GPU_BENCH): $(GPU_BUNDLE)/%: $(BENCH)/%
	@mkdir -p $(@D) && cp $< $@
$(GPU_BUNDLE)/libwarmpool_bench.so: $(SHARED)
	@mkdir -p $(@D) && cp $< $@
$(GPU_BUNDLE)/%.py: tests/gpu/%.py
	@mkdir -p $(@D) && cp $< $@
$(GPU_BUNDLE)/preload/preload_program: $(B)/tests/gpu/preload_program.o
$(GPU_BUNDLE)/preload/ipc_program: $(B)/tests/preload/ipc_program.o
$(GPU_BUNDLE)/preload/preload_program $(GPU_BUNDLE)/preload/ipc_program:
	@mkdir -p $(@D)
	@$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $< -L$(dir $(GPU_CUDA)) -lcudart -lcublas \
	    -Wl,-rpath-link,$(dir $(GPU_CUDA)) $(LIBS) -o $@
$(GPU_BUNDLE)/preload/libwarmpool.so.0: $(SHARED)
	@mkdir -p $(@D) && cp $< $@
$(GPU_BUNDLE)/preload/%: $(B)/%
	@mkdir -p $(@D) && cp $< $@
$(GPU_BUNDLE)/preload_%: tests/gpu/preload_%
	@mkdir -p $(@D) && cp $< $@
$(addprefix $(GPU_BUNDLE)/,run.sh calls.sh watch.sh): $(GPU_BUNDLE)/%: tests/gpu/%
	@mkdir -p $(@D) && cp $< $@
$(GPU_BUNDLE)/tap.sh: tests/run.sh
	@mkdir -p $(@D) && cp $< $@

# On this machine's own GPU; says so and succeeds where there is none.
check-gpu: gpu-bundle
	@OUT=build/gpu/log $(GPU_BUNDLE)/run.sh

.PHONY: gpu-bundle gpu-pack gpu-bundle-demo gpu-bundle-bench gpu-bundle-files gpu-no-headers check-gpu
