#!/bin/sh
# Makes ossian-tiny in $OUT from nothing, or goes on where a cut run stopped.
# Run from the repository root; needs go, a Python with requirements.txt, and g++ for half the time.
set -eu
PYTHON=${PYTHON:-python3}
OUT=${OUT:-models/ossian-tiny}
WORK=${WORK:-models/ossian-tiny-work}
here=_tools/tinymodel
mkdir -p "$WORK"
[ -f "$WORK/tokenizer.json" ] || "$PYTHON" $here/tokenizer.py --out "$WORK"
for steps in 8450 15000; do # the rate falls to nothing each time
	"$PYTHON" $here/train.py --dir "$WORK" --steps $steps "$@"
done
# Half of a last stretch; with twice the rates it begins where a whole one does.
"$PYTHON" $here/train.py --dir "$WORK" --steps 15600 --muon-rate 0.008 --adam-rate 0.001 "$@"
"$PYTHON" $here/export.py --dir "$WORK" --out "$OUT" --check 1500 --golden "$OUT.golden"
go run ./$here/eval -model "$OUT" -logits "$OUT.logits"
"$PYTHON" $here/data.py --per-ability 640 --out "$WORK/heldout.jsonl"
status=0
go run ./$here/eval -model "$OUT" -items "$WORK/heldout.jsonl" > "$WORK/table.md" || status=$?
cat "$WORK/table.md"
cat $here/card.md "$WORK/table.md" > "$OUT/README.md"
exit $status
