package planfile

import "testing"

// TestMarshal writes plans and reads them back: nothing is lost, and a second writing gives the same bytes.
func TestMarshal(t *testing.T) {
	for _, text := range []string{Example, least,
		"models: [a, 'b: c']\nname: n\nbudget: {time: 90s}\nmachine: {price_per_hour: 2.5, power: rapl}\nobjective: {minimize: mean_ttft_ms, on: w, sla: {output_throughput: 5}}\n" +
			"engines:\n  z: {start: \"x '{port} a' {flags}\", env: {A: 'on', B: ''}, flags: {f: '1'}, devices: 2, ready_timeout: 90s}\n  box: {container: {image: i, args: '{port} {flags}', options: --gpus all, runtime: podman}}\n  far: {url: 'http://h:1', key_env: K}\n  s: {shell: true, start: 'x {port} {flags} | y'}\n" +
			"options:\n  - {engine: z, name: o, flags: {'yes': [true, 'no', '0x1f', 1.50]}, unless: flags.f != a b, lossy: true}\n" +
			"workloads: {w: {input_len: 8, output_len: 4, seed: 0, request_rate: 2.5, max_concurrency: 3, ignore_eos: false, extra_body: {a: [1, {b: null}]}, endpoint: completions, range_ratio: 0.5}}\n" +
			"generalise: [short]\nequality: {prompts: 0}\ncache: salt\nseed: 7\ncompare: [a.json]\n"} {
		plan, err := read(text)
		if err != nil {
			t.Fatal(err)
		}
		written, err := plan.Marshal(kinds)
		if err != nil {
			t.Fatal(err)
		}
		again, err := read(string(written))
		if err != nil {
			t.Fatalf("%v in\n%s", err, written)
		}
		if !plan.Equal(again) {
			t.Errorf("before %+v\nafter  %+v\nin\n%s", plan, again, written)
		}
		if second, err := again.Marshal(kinds); err != nil || string(second) != string(written) {
			t.Errorf("%v, written twice:\n%s\n%s", err, written, second)
		}
	}
}
