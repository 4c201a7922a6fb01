// attend_merge, the second half of attention whose splits were computed by blocks of their own: see
// attend.cuh.
#include "attend.cuh"

// attend_merge joins the splits of a tile's pairs in ascending order, as attend_block does in
// registers. Grid: tile, kv head. A thread has four elements of one pair at a time.
extern "C" __global__ void __launch_bounds__(128) attend_merge(const AttendArgs a) {
  AttendTile tile = a.tiles[blockIdx.x];
  if (tile.row < 0) return;
  int kvHead = blockIdx.y, quads = a.padded / 4;
  int firstSplit = pair_of(a, tile, kvHead, tile.pair).from / SPLIT; // of the tile
  size_t planes = ((size_t)blockIdx.x * a.kvHeads + kvHead) * a.splits;
  for (int i = threadIdx.x; i < TILE * quads; i += blockDim.x) {
    int row = i / quads, element = i % quads * 4;
    Pair p = pair_of(a, tile, kvHead, tile.pair + row);
    if (!p.valid) return; // as are all that follow
    Softmax run = nothing();
    float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int split = p.from / SPLIT; split <= p.pos / SPLIT; split++) {
      size_t at = (planes + split - firstSplit) * TILE + row;
      float2 end = a.ends[at];
      float4 next = *reinterpret_cast<const float4*>(a.planes + at * a.padded + element);
      Fade fade = join(run, {end.x, end.y});
      total = make_float4(join_value(total.x, next.x, fade), join_value(total.y, next.y, fade),
                          join_value(total.z, next.z, fade), join_value(total.w, next.w, fade));
    }
    float factor = finish(run, a.sinks, p.head);
    uint32_t* dst = reinterpret_cast<uint32_t*>(a.dst + (size_t)p.token * a.dstStride + p.head * a.dim + element);
    if (element < a.dim) dst[0] = pack_bf16(result(total.x, factor), result(total.y, factor));
    if (element + 2 < a.dim) dst[1] = pack_bf16(result(total.z, factor), result(total.w, factor));
    if (p.head == a.heads - 1) clear_tail(a, p.token, element / 4, quads);
  }
}
