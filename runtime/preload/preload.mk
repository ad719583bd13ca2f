# preload.mk: libwarmpool-preload.so, which serves a program's calls of CUDA.
# Beside the library, which it needs; no part of it. CUDA's headers are not
# needed.
PRELOAD_SRC := $(wildcard runtime/preload/*.c)
PRELOAD_OBJ := $(PRELOAD_SRC:%.c=$(B)/%.o)
PRELOAD := $(B)/libwarmpool-preload.so

# It defines functions of CUDA without CUDA's headers.
$(B)/runtime/preload/%.o: private FLAGS += -Wno-missing-prototypes
# The last call in dlsym() must be a jump; and sanitizers look up functions
# before they have begun, which no instrumented code survives.
$(B)/runtime/preload/dlsym.o $(B)/runtime/preload/real.o: private FLAGS := -std=c17 -D_GNU_SOURCE -fPIC \
    -fvisibility=hidden -O2 -Iinclude -MMD -MP $(WARN) \
    -Wno-missing-prototypes

$(PRELOAD): $(PRELOAD_OBJ) runtime/preload/preload.map $(SHARED)
	$(call say,ld,$@)
	$(Q)$(CC) -shared $(OPT_$(FLAVOUR)) $(LDFLAGS) \
	    -Wl,-soname,libwarmpool-preload.so -Wl,-rpath,'$$ORIGIN' \
	    -Wl,--version-script=runtime/preload/preload.map -Wl,-z,nodelete \
	    $(PRELOAD_OBJ) -L$(B) -lwarmpool $(LIBS) -o $@

$(B)/warmpool-run: runtime/preload/warmpool-run.sh
	@mkdir -p $(@D)
	@install -m 755 $< $@

preload: $(PRELOAD) $(B)/warmpool-run
.PHONY: preload
-include $(PRELOAD_OBJ:.o=.d)
