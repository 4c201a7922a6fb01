// Package interop holds what Ossian sends to other programs to decoders that others have written:
// KV events to a msgpack decoder, traces to OpenTelemetry's protocol buffers, metrics to Prometheus'
// engine and the panels of public dashboards. It is a module of its own, so that none of these is
// among the product's.
package interop
