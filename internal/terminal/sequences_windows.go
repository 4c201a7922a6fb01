package terminal

import (
	"os"

	"golang.org/x/sys/windows"
)

// showSequences has the console act on escape sequences, which older ones do only when told.
func showSequences(screen *os.File) error {
	console := windows.Handle(screen.Fd())
	var mode uint32
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return err
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_PROCESSED_OUTPUT|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
}
