# packaging.mk: how the library is found: pkg-config and CMake; included by
# Makefile, whose install brings what is made here.
#
#   make install-strip    install, without what only debuggers read
#   make check-packages   tests of all of it
PK := runtime/packaging
STRIP ?= strip

# What is filled in: paths below the prefix, so that the tree can be moved.
PK_FILES := $(B)/warmpool-static.pc $(B)/warmpoolConfig.cmake \
    $(B)/warmpoolConfigVersion.cmake
PK_FILL = sed -e 's|@prefix@|$(prefix)|' -e 's|@version@|$(VERSION)|' \
    -e 's|@major@|$(MAJOR)|' -e 's|@libdir@|$(call below,$(libdir))|' \
    -e 's|@includedir@|$(call below,$(includedir))|' \
    -e "s|@include_from_lib@|$$(realpath -ms --relative-to=$(libdir) $(includedir))|"
$(PK_FILES): $(B)/%: $(PK)/%.in $(B)/flags FORCE
	@mkdir -p $(@D)
	@$(PK_FILL) $< >$@

DEST_CMAKE := $(DEST_LIB)/cmake/warmpool
install-packaging: $(PK_FILES)
	install -d $(DEST_CMAKE) $(DEST_LIB)/pkgconfig
	install -m 644 $(filter %.cmake,$(PK_FILES)) $(DEST_CMAKE)
	install -m 644 $(filter %.pc,$(PK_FILES)) $(DEST_LIB)/pkgconfig

uninstall-packaging:
	rm -f $(PK_FILES:$(B)/%.pc=$(DEST_LIB)/pkgconfig/%.pc)
	rm -rf $(DEST_CMAKE)

# What links with the static library needs its symbols, but not its lines.
install-strip: install
	$(STRIP) --strip-unneeded $(DEST_LIB)/libwarmpool.so.$(MAJOR) \
	    $(DEST_LIB)/libwarmpool-preload.so $(DEST_BIN)/warmpool-info \
	    $(DEST_BIN)/warmpool-replay
	$(STRIP) --strip-debug -D $(DEST_LIB)/libwarmpool.a

PK_NEED := pkg-config cmake
check-packages:
	@CC='$(CC)' tests/need.sh $(PK_NEED)
	+@$(MAKE) run-check-packages

run-check-packages: all $(B)/tests/bench/replay
	@PK_BUILD='$(B)' CUDA='$(CUDA)' tests/run.sh -l $(B)/log -t 300 \
	    host:tests/packages/test_install.sh

.PHONY: install-strip install-packaging uninstall-packaging check-packages \
    run-check-packages
