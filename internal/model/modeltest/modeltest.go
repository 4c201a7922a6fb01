// Package modeltest makes tiny random models of every family and says in float64
// what they compute, so that a test of a device or of a runner needs neither a
// checkpoint nor a reference implementation.
//
// tiny.go makes the models, oracle.go computes them, compare.go tells how far results are apart.
package modeltest
