# python.mk: the Python package; included by Makefile.
#
#   make wheel          a wheel in build/python/dist, with the library inside
#   make check-python   that wheel with NumPy and PyTorch, from the package index
PY := build/python
PY_VENV := $(PY)/venv/bin
PY_TREE := $(PY)/tree
PY_TORCH := torch==2.15.0
PY_TORCH_NEED := numpy filelock typing_extensions sympy networkx jinja2 fsspec \
    setuptools
WHEEL_NEED := python3 python3-venv

# What PyTorch, CuPy and consumers of DLPack call. C++ (python_entry.cpp says
# why): beside the library, which it finds there.
PY_ENTRY := $(B)/libwarmpool-python.so
CXX_FLAGS := -std=c++17 -fPIC -fvisibility=hidden -Wall -Wextra -Wpedantic -Wshadow \
    -Wconversion -Wundef $(OPT_$(FLAVOUR)) -Iinclude $(if $(CI),-Werror)
PY_SRC := $(addprefix runtime/python/,python_buffer.cpp python_entry.cpp)
$(PY_ENTRY): $(PY_SRC) $(wildcard include/warmpool/*.h) $(SHARED)
	$(call say,ld,$@)
	$(Q)$(CXX) -shared $(CXX_FLAGS) $(CPPFLAGS) $(LDFLAGS) $(PY_SRC) -L$(B) -lwarmpool \
	    -Wl,-rpath,'$$ORIGIN' -o $@

# The tools that pack the wheel and say for which systems it is: they run in an
# environment of their own.
$(PY_VENV)/auditwheel:
	@CC='$(CC)' tests/need.sh $(WHEEL_NEED) g++
	@mkdir -p $(PY)
	$(call say,venv,$(PY)/venv)
	$(Q)python3 -m venv $(PY)/venv
	$(Q)$(PY_VENV)/python -m pip install -q --disable-pip-version-check wheel auditwheel

wheel: $(PY_VENV)/auditwheel
	+@$(MAKE) FLAVOUR=release B=build/release run-wheel

# No time in it is of the day on which it was packed.
PY_DATE := SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-315532800}
run-wheel: $(SHARED) $(PY_ENTRY)
	@rm -rf $(PY_TREE) $(PY)/plain $(PY)/dist
	@mkdir -p $(PY_TREE)/warmpool $(PY_TREE)/warmpool-$(VERSION).dist-info $(PY)/plain
	@cp runtime/python/warmpool/*.py $(SHARED) $(PY_ENTRY) $(PY_TREE)/warmpool
	@strip --strip-unneeded $(PY_TREE)/warmpool/*.so*
	@sed 's/@version@/$(VERSION)/' runtime/python/METADATA.in >$(PY_TREE)/warmpool-$(VERSION).dist-info/METADATA
	@cat runtime/python/README.md >>$(PY_TREE)/warmpool-$(VERSION).dist-info/METADATA
	@sed -e 's/@version@/$(VERSION)/' -e "s/@machine@/$$(uname -m)/" runtime/python/WHEEL.in \
	    >$(PY_TREE)/warmpool-$(VERSION).dist-info/WHEEL
	@$(PY_DATE) $(PY_VENV)/python -m wheel pack -d $(PY)/plain $(PY_TREE) \
	    >$(PY)/pack.log || { cat $(PY)/pack.log; exit 1; }
	@$(PY_DATE) runtime/python/tag.sh $(PY_VENV) $(PY)/plain/*.whl $(PY)/dist

# PyTorch's wheel of CUDA, without NVIDIA's libraries: the stand-ins are linked
# in their place. 540 MB to download, 1.2 GB unpacked.
$(PY)/torch/bin/python:
	@CC='$(CC)' tests/need.sh python3 python3-venv
	$(call say,get,$(PY_TORCH))
	$(Q)python3 -m venv $(PY)/torch.new
	$(Q)$(PY)/torch.new/bin/python -m pip install -q --disable-pip-version-check $(PY_TORCH_NEED)
	$(Q)$(PY)/torch.new/bin/python -m pip install -q --disable-pip-version-check --no-deps $(PY_TORCH)
	$(Q)rm -rf $(PY)/torch && mv $(PY)/torch.new $(PY)/torch

run-get-torch: $(PY)/torch/bin/python

check-python: wheel
	+@$(MAKE) run-get-torch || { echo 'skip: check-python: could not get $(PY_TORCH)'; exit 0; }; \
	    $(MAKE) FLAVOUR=debug B=build/debug run-check-python

run-check-python: $(if $(STANDIN),standin) $(SHARED) preload
	@WT_STATIC=$(STATIC) tests/run.sh -l $(B)/log -t 600 host:tests/python/check_wheel.sh

.PHONY: wheel run-wheel run-get-torch check-python run-check-python
