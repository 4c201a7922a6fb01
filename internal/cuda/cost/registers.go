package cost

// registersOf are the registers of a thread that ptxas 12.9 allots to a kernel for sm_80
// (_tools/cuda/build.sh prints them). They decide how many blocks a multiprocessor holds at once.
var registersOf = map[string]int{
	"add_norm": 32, "add_norm_experts_4": 52, "add_norm_experts_8": 64, "allreduce": 32, "attend_128_bf16": 255, "attend_128_e4m3": 254, "attend_256_bf16": 255, "attend_256_e4m3": 242,
	"attend_64_bf16": 176, "attend_64_e4m3": 168, "attend_merge": 40, "attend_prefill_128_bf16": 242, "attend_prefill_128_e4m3": 228,
	"attend_prefill_256_bf16": 201, "attend_prefill_256_e4m3": 197, "attend_prefill_64_bf16": 128, "attend_prefill_64_e4m3": 128,
	"down_bf16_128": 190, "down_bf16_16": 71, "down_bf16_32": 80, "down_bf16_8": 50, "down_mxfp4_128": 198, "down_mxfp4_16": 110,
	"down_mxfp4_32": 121, "down_mxfp4_8": 72, "down_q8_128": 203, "down_q8_16": 100, "down_q8_32": 119, "down_q8_8": 73, "embed_bf16": 14,
	"embed_mxfp4": 16, "embed_q8": 16, "experts_combine": 32, "experts_plan": 32, "glu": 23, "linear_bf16_128": 184, "linear_bf16_16": 71,
	"linear_bf16_32": 78, "linear_bf16_8": 48, "linear_mxfp4_128": 202, "linear_mxfp4_16": 110, "linear_mxfp4_32": 124, "linear_mxfp4_8": 72,
	"linear_q8_128": 205, "linear_q8_16": 102, "linear_q8_32": 119, "linear_q8_8": 71, "narrow": 10, "rotate_store": 56, "route": 45,
	"route_plan": 40, "sample_adjust": 32, "sample_draw": 32, "sample_finish": 20, "sample_peak": 22, "sample_resolve": 16,
	"sample_score": 30, "sample_select": 36, "sample_top": 21, "select_rows": 18, "up_bf16_128": 190, "up_bf16_16": 72, "up_bf16_32": 79,
	"up_bf16_8": 49, "up_mxfp4_128": 198, "up_mxfp4_16": 110, "up_mxfp4_32": 121, "up_mxfp4_8": 72, "up_q8_128": 203, "up_q8_16": 100,
	"up_q8_32": 119, "up_q8_8": 73,
}
