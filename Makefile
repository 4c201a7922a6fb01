# make check is what a change must pass. Everything it needs beyond Go comes
# through the Go module proxy.
GO          ?= go
STATICCHECK  = honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 10s
MODELS      ?= models
PYTHON      ?= python3

.PHONY: check fmt vet lint race purego cross generate fuzz fuzz-long bench conformance reference smollm2 performance

check: fmt vet lint race purego cross generate fuzz

fmt:
	@test -z "$$(gofmt -l cmd internal)" || { gofmt -l cmd internal; exit 1; }

vet:
	$(GO) vet ./...
	GOARCH=arm64 $(GO) vet ./...

lint:
	$(GO) run $(STATICCHECK) ./...

race:
	$(GO) test -race -short ./...

purego:
	$(GO) test -short -tags purego ./internal/cpu/... ./internal/e2e/... ./cmd/...

cross:
	CGO_ENABLED=0 GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 GOOS=windows $(GO) build ./...

# The generators must reproduce the committed assembly byte for byte.
generate:
	./_tools/generate.sh --check

# Each fuzz target for FUZZTIME; seeds always run with go test.
fuzz:
	./_tools/fuzz.sh $(FUZZTIME)

fuzz-long:
	./_tools/fuzz.sh 10m

bench:
	$(GO) test -run '^$$' -bench . ./internal/...
