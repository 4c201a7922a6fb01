package emu

import (
	"errors"
	"fmt"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu/exec"
)

// Codes of the driver's errors that the emulator gives.
const (
	invalidValue       = 1
	outOfMemory        = 2
	notInitialized     = 3
	invalidDevice      = 101
	invalidContext     = 201
	noBinary           = 209
	invalidPTX         = 218
	invalidHandle      = 400
	notFound           = 500
	peerEnabled        = 704
	peerNotSupported   = 217
	captureUnsupported = 900
	captureInvalidated = 901
	captureUnmatched   = 903
	captureUnjoined    = 904
	captureIsolation   = 905
	captureImplicit    = 906
	capturedEvent      = 907
	notReady           = 600
	notSupported       = 801
)

var names = map[int]string{
	invalidValue: "CUDA_ERROR_INVALID_VALUE", outOfMemory: "CUDA_ERROR_OUT_OF_MEMORY", notInitialized: "CUDA_ERROR_NOT_INITIALIZED",
	invalidDevice: "CUDA_ERROR_INVALID_DEVICE", invalidContext: "CUDA_ERROR_INVALID_CONTEXT", noBinary: "CUDA_ERROR_NO_BINARY_FOR_GPU",
	invalidPTX: "CUDA_ERROR_INVALID_PTX", invalidHandle: "CUDA_ERROR_INVALID_HANDLE", notFound: "CUDA_ERROR_NOT_FOUND",
	exec.IllegalAddress: "CUDA_ERROR_ILLEGAL_ADDRESS", exec.LaunchTimeout: "CUDA_ERROR_LAUNCH_TIMEOUT", peerEnabled: "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
	peerNotSupported: "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", exec.IllegalInstruction: "CUDA_ERROR_ILLEGAL_INSTRUCTION", exec.MisalignedAddress: "CUDA_ERROR_MISALIGNED_ADDRESS", exec.LaunchFailed: "CUDA_ERROR_LAUNCH_FAILED",
	captureUnsupported: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", captureInvalidated: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	captureUnmatched: "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", captureUnjoined: "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
	captureIsolation: "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", captureImplicit: "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
	capturedEvent: "CUDA_ERROR_CAPTURED_EVENT", notReady: "CUDA_ERROR_NOT_READY", notSupported: "CUDA_ERROR_NOT_SUPPORTED",
}

// failure returns an error of the driver; the call gets its name where it returns.
func failure(code int, format string, a ...any) error {
	return &driver.Error{Code: code, Name: names[code], Text: fmt.Sprintf(format, a...)}
}

// ofCall says which call an error came from.
func ofCall(err error, call string) error {
	var e *driver.Error
	if errors.As(err, &e) && e.Call == "" {
		copied := *e
		copied.Call = call
		return &copied
	}
	return err
}
