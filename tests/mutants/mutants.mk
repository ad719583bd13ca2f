# Changes of the library that tests must notice: mutants.py says how.
#
#   make mutants [N=20] [SEED=1] [FILE=alloc/…]   random ones; the map is made once
#   make check-mutants [N=10] [SEED=…]            of those of known.txt
#
# Before a change that is to alter no behaviour, `mutants.py map`; after it,
# `mutants.py same`.
MUTANTS := tests/mutants/mutants.py
mutants: need-check
	@tests/need.sh python3
	+@$(MUTANTS) random $(or $(N),20) $(or $(SEED),1) $(FILE)

check-mutants: need-check
	@tests/need.sh python3
	+@$(MUTANTS) known $(or $(N),10) $(or $(SEED),1)

# What mutants.py asks; no files have these names.
print-runs:
	@echo $(HOST_RUNS:host:$(B)/%=host:%) $(STANDIN_RUNS:standin:$(B)/%=standin:%)
print-compile:
	@echo $(CC) $(FLAGS) $(CUDA_FLAGS) $(CPPFLAGS) $(CFLAGS)

.PHONY: mutants check-mutants
