# Schedules of the library's own threads: sched.h says how.
#
#   make schedules [WT_SCHEDULES=20000] [WT_SEED=1]
#
# plays about so many of each scenario; `make check`, a few for 30 s in all.
#
# Weakened by WT_WEAKEN, these orders turned no scenario red: they were played in
# up to 150 schedules of each scenario that meets them, some in 8,000. They stay: the
# scheduler is stronger than C11 there, or another order hides theirs.
#   - A load is never early, so one after which atomics alone are read shows
#     nothing, nor does the store that it pairs with: wm_page_leaf(), its
#     _reserved(), the root in wm_block_from() and add_leaf() (the kernel zeroes
#     leaves), wm_page_map_get(), holds() and wm_segment_place(),
#     wm_runtime_check() and _check_read(), add_block(), alloc() of
#     device_memory.c and invalidate_bindings(), the peak in raise_peak(),
#     wm_block_own(), and wm_block_detach_uses() that clears it.
#   - One of several in a row, as a block is looked up, claimed or freed: the
#     start in wm_block_from() and wm_page_map_set_run(), wm_block_set_state(),
#     spanning(), wm_space_find(), free_slow(), claim(), free_found(),
#     free_ours(), wm_magazine_owns(), wm_magazine_free_other().
#   - What the caller orders, records before the free above all: wm_space_free(),
#     wm_magazine_may_keep(), the uses in wm_block_detach_uses();
#     warm_storage_lock(), for the caller's data.
#   - What a lock orders: the arena's, is_unused() and wm_private_routed(), find()
#     and wm_private_arena_locked() for the number, wm_lane_drop() and
#     drop_locked(), wm_biased_wait(); a list's, the exchange in push_locked() and
#     in add_adopted(). wm_host_root_release() orders the lock itself.
#   - No read-modify-write is late, but for the weakened one: unlink_locked(),
#     wm_private_await_readers(), the exchange in raise_peak() (by C17 a
#     sequentially consistent load may find an older store of another order).
#   - wm_biased_visit() and _revoke() are sequentially consistent for
#     ThreadSanitizer; else membarrier(2) orders them. wm_biased_enter_unless()
#     that is refused: it ends no use, but the sequence of the release before.
#   - Nothing is read afterwards: wm_runtime_end_close(); wm_pending_add() that
#     gives the claim back; look() of pressure.c, which has nothing to watch.
#
# No scenario meets these:
#   - start, stop, and what is made once: runtime.c, preload/start.c, probe.c,
#     cuda_context.c, kind_cuda.c, snapshot_signal.c;
#   - statistics: wm_live_show(), warm_storage_use_count() and _weak_count(), the
#     ring of history.c, wm_traced_free();
#   - the sleep in wm_lock_wait(); the refusal of a second thread in staging.c and
#     the epoch in staging_ring.c; the word of workspace_int.h and
#     workspace_state.c, which lease_threads plays;
#   - a claim that is given back since the pointer was stale: claim(),
#     wm_magazine_free_other(); transfer_one();
#   - the wait for a paused pool: pool_pause.c, look() of private_pool.c; there
#     also match() past a pool, a pool for graphs in warm_private_pool_begin(),
#     and one that stops recording while a later one goes on;
#   - lists with uses of retired streams: take_retired_locked(),
#     drop_completed(); end_own().
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
