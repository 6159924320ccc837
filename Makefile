# The door for people; the build itself is Meson's.
#
#	make            build/brig, the release binary
#	make run        what a sandbox stops, step by step
#	make test       everything: linters, unit, end-to-end and attack tests with sanitizers
#	make lab        the tests that need cgroup v2, in an emulated machine
#	make bench      side by side with its peers
#	make lint, make fuzz, make install, make docs, make clean

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60



.PHONY: all run test unit e2e attack lab lint bench fuzz install docs clean setup-build setup-test setup-lab

all: setup-build build/build.ninja build-serve/build.ninja
	@ninja -C build brig brig-init
	@ninja -C build-serve brig-serve
	@cmp -s build-serve/brig-serve build/brig-serve || install -m 755 build-serve/brig-serve build/brig-serve

setup-build:
	@scripts/setup build
	@scripts/ui

setup-test:
	@scripts/setup test

# Without its packages the lab is skipped, in words.
setup-lab:
	@scripts/setup lab || true

build/build.ninja:
	@if command -v musl-gcc >/dev/null 2>&1; then \
		CC=musl-gcc meson setup build -Dlibc=musl -Dserve=false; \
	else \
		echo "make: no musl-gcc: building with the system's C library, which starts slower" >&2; \
		meson setup build -Dserve=false; \
	fi

# The daemon's libraries are the system's, so is its C library.
build-serve/build.ninja:
	@CC=gcc meson setup build-serve

build-test/build.ninja:
	@scripts/ui
	@CC=gcc meson setup build-test -Dtests=true -Dtest_hooks=true -Db_sanitize=address,undefined -Db_lundef=false

build-clang/build.ninja:
	@CC=clang meson setup build-clang -Dtests=true

build-fuzz/build.ninja:
	@CC=clang meson setup build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false

run: all
	@scripts/demo build/brig

test: setup-test setup-lab all
	@scripts/test

unit: setup-test build-test/build.ninja
	@ninja -C build-test
	@meson test -C build-test --print-errorlogs

e2e attack: setup-test all build-test/build.ninja
	@ninja -C build-test
	@/usr/bin/python3 -m pytest -q test/$@

lab: setup-test setup-lab all
	@scripts/lab

lint: setup-test build-test/build.ninja build-clang/build.ninja
	@scripts/lint

bench: all
	@bench/run

fuzz: setup-test build-fuzz/build.ninja
	@ninja -C build-fuzz
	@scripts/fuzz $(FUZZ_SECONDS)

docs: all
	@scripts/docs build/brig

install: all
	@install -D -m 755 build/brig $(DESTDIR)$(PREFIX)/bin/brig
	@install -D -m 755 build/brig-init $(DESTDIR)$(PREFIX)/libexec/brig/brig-init
	@install -D -m 755 build/brig-serve $(DESTDIR)$(PREFIX)/libexec/brig/brig-serve
	@for unit in brig.service brig.socket; do \
		install -d $(DESTDIR)$(PREFIX)/lib/systemd/system && \
		sed 's,@PREFIX@,$(PREFIX),' systemd/$$unit >$(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit; \
	done
	@install -D -m 644 man/brig.1 $(DESTDIR)$(PREFIX)/share/man/man1/brig.1
	@for shell in bash:bash-completion/completions/brig zsh:zsh/site-functions/_brig \
		fish:fish/vendor_completions.d/brig.fish; do \
		build/brig completion $${shell%%:*} | \
			install -D -m 644 /dev/stdin $(DESTDIR)$(PREFIX)/share/$${shell#*:}; \
	done
	@for policy in policies/*.yaml; do \
		install -D -m 644 $$policy $(DESTDIR)$(PREFIX)/share/brig/policies/$${policy##*/}; \
	done
	@echo "installed $(DESTDIR)$(PREFIX)/bin/brig"

clean:
	@rm -rf build build-test build-clang build-fuzz build-lab
