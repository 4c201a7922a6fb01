package predict

// Shipped returns the calibration that is in the program for a machine, an engine and a version
// of it; nil = there is none.
func Shipped(machineName, engine, version string) *Calibration { return nil }
