// Package e2e holds tests only: they write a checkpoint, open it, run it and
// compare what comes out with other people's implementations. Whoever changes a
// reader, the decoder or a kernel learns here whether models still say the same.
package e2e
