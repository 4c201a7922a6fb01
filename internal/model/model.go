// Package model holds what a model is (Spec), the one decoder program that runs
// every family, and the contract of the devices that execute it. A reader of the
// decoder sees the whole forward pass and no kernels; a writer of a device sees
// a dozen fused operations and no families.
//
// spec.go says what a model is, params.go which parameters it has, rope.go how positions turn
// its vectors; device.go is the contract, decoder.go the program.
package model
