# packaging.mk: how the library is found: pkg-config, CMake, manual pages;
# included by Makefile, whose install brings what is made here.
#
#   make install-strip    install, without what only debuggers read
#   make man html         the reference, in $(B)/man and $(B)/html
#   make install-doc      both of it
#   make deb              Debian packages, in $(B)/deb (MAINTAINER='Name <mail>')
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
install-packaging: need-place $(PK_FILES)
	install -d $(DEST_CMAKE) $(DEST_LIB)/pkgconfig
	install -m 644 $(filter %.cmake,$(PK_FILES)) $(DEST_CMAKE)
	install -m 644 $(filter %.pc,$(PK_FILES)) $(DEST_LIB)/pkgconfig

uninstall-packaging: need-place
	rm -f $(PK_FILES:$(B)/%.pc=$(DEST_LIB)/pkgconfig/%.pc)
	rm -rf $(DEST_CMAKE) $(DEST_DOC)/html $(DEST_DOC)/CHANGES.md
	[ ! -d $(DEST_DOC) ] || rmdir --ignore-fail-on-non-empty $(DEST_DOC)
	rm -f $(DEST_MAN)/man[17]/warmpool*.[17] $(DEST_MAN)/man3/warm_*.3

# What links with the static library needs its symbols, but not its lines.
install-strip: install
	$(STRIP) --strip-unneeded $(DEST_LIB)/libwarmpool.so.$(MAJOR) \
	    $(DEST_LIB)/libwarmpool-preload.so $(DEST_BIN)/warmpool-info \
	    $(DEST_BIN)/warmpool-replay
	$(STRIP) --strip-debug -D $(DEST_LIB)/libwarmpool.a

# ---- reference: made from the headers' comments -----------------------------

mandir ?= $(prefix)/share/man
docdir ?= $(prefix)/share/doc/warmpool
DEST_MAN := $(DESTDIR)$(mandir)
DEST_DOC := $(DESTDIR)$(docdir)

# The date on the pages; without git, that of the header with the version.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null \
    || stat -c %Y include/warmpool/base.h)
REFERENCE := $(wildcard $(PK)/*.py) $(B)/date
$(B)/date: FORCE
	@mkdir -p $(@D)
	@echo '$(SOURCE_DATE_EPOCH)' | cmp -s - $@ || echo '$(SOURCE_DATE_EPOCH)' >$@
HEADERS := $(sort $(wildcard include/warmpool/*.h include/warmpool/*.hpp))
MAN_1 := $(wildcard $(PK)/man/*.1.in)

need-python:
	@tests/need.sh python3

man: $(B)/man/made
html: $(B)/html/index.html

$(B)/man/made: $(REFERENCE) $(HEADERS) $(MAN_1) | need-python
	@rm -rf $(@D) && mkdir -p $(@D)/man1
	$(call say,man,$(@D))
	$(Q)python3 $(PK)/reference.py man $(VERSION) $(SOURCE_DATE_EPOCH) \
	    $(@D) $(HEADERS)
	@date=$$(date -u -d @$(SOURCE_DATE_EPOCH) +%Y-%m-%d) && \
	for page in $(MAN_1); do \
	    sed -e "s|@date@|$$date|" -e 's|@version@|$(VERSION)|' $$page \
	        >$(@D)/man1/$$(basename $$page .in) || exit; \
	done
	@touch $@

$(B)/html/index.html: $(REFERENCE) $(HEADERS) | need-python
	@rm -rf $(@D)
	$(call say,html,$(@D))
	$(Q)python3 $(PK)/reference.py html $(VERSION) $(SOURCE_DATE_EPOCH) \
	    $(@D) $(HEADERS)

install-doc: man html
	for section in 1 3 7; do \
	    install -d $(DEST_MAN)/man$$section && \
	    install -m 644 $(B)/man/man$$section/* $(DEST_MAN)/man$$section \
	        || exit; \
	done
	install -d $(DEST_DOC)/html
	install -m 644 $(B)/html/* $(DEST_DOC)/html
	install -m 644 $(PK)/CHANGES.md $(DEST_DOC)

# ---- Debian packages: of what make has built ---------------------------------

MAINTAINER ?= warmpool's developers <warmpool@example.org>
DEB := $(B)/deb
DEB_NEED := dpkg-dev debhelper
deb:
	@tests/need.sh $(DEB_NEED) python3
	+@$(MAKE) run-deb

# dpkg-buildpackage wants a folder debian/, and writes above it.
run-deb: all $(B)/tests/bench/replay man html
	@rm -rf $(DEB) && mkdir -p $(DEB)/warmpool/debian/source
	@for file in $(PK)/debian/*; do \
	    name=$$(basename $$file) && \
	    sed -e 's|@major@|$(MAJOR)|g' -e 's|@version@|$(VERSION)|g' \
	        -e "s|@maintainer@|$(MAINTAINER)|" \
	        -e "s|@date@|$$(date -u -R -d @$(SOURCE_DATE_EPOCH))|" \
	    -e "s|@year@|$$(date -u +%Y -d @$(SOURCE_DATE_EPOCH))|" $$file \
	        >$(DEB)/warmpool/debian/$${name/libwarmpool./libwarmpool$(MAJOR).} \
	        || exit; \
	done
	@echo '3.0 (native)' >$(DEB)/warmpool/debian/source/format
	@chmod +x $(DEB)/warmpool/debian/rules
	$(call say,deb,$(DEB))
	@cd $(DEB)/warmpool && env -u MAKEFLAGS -u MAKELEVEL -u MAKEOVERRIDES \
	    WARMPOOL_TOP=$(CURDIR) WARMPOOL_B=$(B) CUDA='$(CUDA)' \
	    WARMPOOL_CC='$(CC)' WARMPOOL_CFLAGS='$(CFLAGS)' \
	    WARMPOOL_CPPFLAGS='$(CPPFLAGS)' WARMPOOL_LDFLAGS='$(LDFLAGS)' \
	    dpkg-buildpackage -b -us -uc -d >../log 2>&1 \
	    || { tail -n 20 ../log; exit 1; }
	@ls $(DEB)/*.deb

# ---- the binary interface, beside that of the last release -------------------

# What a release has: a release runs abi-release. New functions are no change.
ABI := tests/packages/libwarmpool.abi.gz
ABI_NEED := abigail-tools
ABI_OF := --drop-private-types
check-abi: $(SHARED)
	@tests/need.sh $(ABI_NEED)
	@gzip -dc $(ABI) >$(B)/abi.released
	@abidiff --no-added-syms $(ABI_OF) --headers-dir2 include/warmpool \
	    $(B)/abi.released $(SHARED)

abi-release: $(SHARED)
	@tests/need.sh $(ABI_NEED)
	@abidw $(ABI_OF) --headers-dir include/warmpool --no-corpus-path \
	    --no-comp-dir-path --no-show-locs $(SHARED) | gzip -9n >$(ABI)

# ---- tests ------------------------------------------------------------------

PK_NEED := pkg-config cmake g++ python3 mandoc groff-base man-db lintian $(DEB_NEED) $(ABI_NEED)
check-packages:
	+@CC='$(CC)' tests/need.sh $(PK_NEED) \
	    || { echo 'skip: check-packages: what is named above'; exit 0; }; \
	    $(MAKE) run-check-packages

run-check-packages: all $(B)/tests/bench/replay man html \
    $(if $(wildcard /usr/bin/dh),run-deb)
	@PK_BUILD='$(B)' CUDA='$(CUDA)' tests/run.sh -l $(B)/log -t 900 \
	    host:tests/packages/test_install.sh host:tests/packages/test_readme.sh \
	    host:tests/packages/test_reference.sh \
	    host:tests/packages/test_deb.sh host:tests/packages/test_abi.sh

.PHONY: check-abi abi-release man html install-doc deb run-deb need-python install-strip install-packaging uninstall-packaging check-packages \
    run-check-packages
