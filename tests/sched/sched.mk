# Schedules of the library's own threads: sched.h says how.
#
#   make schedules [WT_SCHEDULES=20000] [WT_SEED=1]
#
# plays about so many of each scenario; `make check`, a few for 30 s in all.
#
# Weakened by WT_WEAKEN, these orders and about twenty others turned no scenario
# red in 180 schedules of each. They stay: as we read them, the model is stronger
# than C11 there, or another order hides theirs.
#   - loads whose reader finds atomics alone: of the page map's leaves (which the
#     kernel zeroes) and segments, wm_group_arenas(), wm_cache_next_set(),
#     pending_of(), wm_runtime_check();
#   - stores to records that are filled under a lock whose release follows, or by
#     calls before: wm_block_set_state(), wm_segment_place(), begin_pinned(),
#     add_adopted(), wm_stream_use_give_up(), wm_timeline_retire();
#   - one of two in a row: the state of a block that is freed (page map, state),
#     raise_peak() (each is seq_cst beside the next), the drops of timelines and
#     lanes (the last is under a lock);
#   - biased_lock.[ch]: sequentially consistent for ThreadSanitizer alone; else
#     membarrier(2) orders them;
#   - end_window() and cut_locked(), wm_runtime_end_close(): what is read after
#     them is freed or left alone.
SCHED_LIB := $(B)/sched/libwarmpool.a
SCHED_OBJ := $(LIB_SRC:%.c=$(B)/sched/%.o) $(B)/runtime/page_html.o
SCHED_PLAY := $(B)/tests/sched/sched.o $(B)/tests/sched/weak.o
SCHED_SRC := $(wildcard tests/sched/check_*.c)
SCHED_QUIET := runtime/host/% runtime/driver/driver% runtime/base/meta% \
    runtime/base/log% runtime/base/clock%

# gcc tells each access to plain memory; the library is as without a sanitizer.
# NVTX's own atomics are none of it.
SCHED_PLAIN = $(if $(findstring clang,$(CC))$(filter %probe.c,$<),, \
    -fsanitize=thread -U__SANITIZE_THREAD__ -fno-builtin-memset)
# Nor does it write what players write without a call.
$(SCHED_SRC:%.c=$(B)/%.o): private FLAGS += -fno-builtin-memset
# Warnings are given where the same file is compiled without hooks.h.
$(B)/sched/%.o: %.c tests/sched/hooks.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,cc,$<)
	$(Q)$(CC) $(FLAGS) -w -DWT_QUIET=$(if $(filter $(SCHED_QUIET),$<),1,0) \
	    -include tests/sched/hooks.h $(SCHED_PLAIN) $(CUDA_FLAGS) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

$(SCHED_LIB): $(SCHED_OBJ)
	$(call say,ar,$@)
	$(Q)rm -f $@ && ar rcsD $@ $(SCHED_OBJ)

$(SCHED_SRC:%.c=$(B)/%): $(B)/%: $(B)/%.o $(SCHED_PLAY) $(WT) $(SCHED_LIB)
	$(call say,ld,$@)
	$(Q)$(CC) $(OPT_$(FLAVOUR)) $(LDFLAGS) $^ -Wl,--wrap=free,--wrap=calloc,--wrap=munmap,--wrap=memset \
	    $(CHECK_LIBS) $(LIBS) -o $@

-include $(LIB_SRC:%.c=$(B)/sched/%.d) $(SCHED_SRC:%.c=$(B)/%.d) $(SCHED_PLAY:.o=.d)

# Part of the tests of one flavour.
ifeq ($(FLAVOUR),debug)
SCHED_RUNS := $(SCHED_SRC:%.c=host:$(B)/%)
test-programs: $(SCHED_SRC:%.c=$(B)/%)
endif

schedules: need-check
	+@WT_SCHEDULES=$${WT_SCHEDULES:-20000} $(MAKE) FLAVOUR=debug B=build/debug \
	    run-schedules

# Every other scenario on a processor of its own.
SCHED_NAMES = $$(sed -n 's/^PLAY[A-Z_]*(\(test_[a-zA-Z0-9_]*\).*/\1/p' $(SCHED_SRC) | \
    awk "NR % 2 == $(1)" | tr '\n' ' ')
SCHED_PART = WT_ONLY="$(SCHED_NAMES)" \
    $(RUN) -t 3600 -b schedules$(1) $(SCHED_SRC:%.c=host:$(B)/%)

run-schedules: $(SCHED_SRC:%.c=$(B)/%)
	@$(call SCHED_PART,0) & other=$$!; \
	    $(call SCHED_PART,1); status=$$?; wait $$other && exit $$status

.PHONY: schedules run-schedules
