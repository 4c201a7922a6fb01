package ckpt

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// A model is read where its files are mapped, for as long as it is open. Whoever writes to one
// of them meanwhile changes the weights under it, and whoever cuts one takes pages away, which
// ends a process that reads them. Replacing a file, as hub and seal do, does no harm: the
// old one stays mapped.

// A ChangedError says that a file of weights is not what it was when it was mapped: what has
// been computed since may be wrong, and the model has to be opened again.
type ChangedError struct {
	File string // path
	How  string // "it was cut from 12 to 4 bytes"
}

// Error implements error.
func (e *ChangedError) Error() string {
	return clean(fmt.Sprintf("%s changed while it is in use: %s; put the right file in its place (a new one, renamed over it) and load the model again", e.File, e.How))
}

// Unchanged returns a *ChangedError if a mapped file of the model was cut or written to since
// it was mapped, or what is attached to the model says so of its own. It looks at sizes and
// times, in about a microsecond for each file, and where a time has changed compares content
// (package watch): a step that was computed before it is called, and after which it returns nil,
// has read what was mapped, since writers set the time before they change a byte. Any number of goroutines may call it, also while the model is closed; of a
// closed one nothing has changed.
func (m *Model) Unchanged() error {
	m.closing.Lock()
	defer m.closing.Unlock()
	for _, file := range m.maps {
		if file.disk == nil || !mapsFiles {
			continue
		}
		if how := file.watch.Differs(); how != "" {
			return &ChangedError{File: file.path, How: how}
		}
	}
	for _, attached := range m.attached {
		if watched, ok := attached.(interface{ Unchanged() (path, how string) }); ok {
			if path, how := watched.Unchanged(); how != "" {
				return &ChangedError{File: path, How: how}
			}
		}
	}
	return nil
}

// Guard runs read, which reads mapped files, and returns its error, or, if a file was changed
// by the end of it, a *ChangedError: what was read may be wrong. A page that is gone panics
// in read and not the process, and ends so too. Other panics go on.
func (m *Model) Guard(read func() error) error {
	err := m.faultless(read)
	changed := m.Unchanged()
	if _, told := errors.AsType[*ChangedError](err); changed == nil || told {
		return err
	} else if err == nil {
		return changed
	}
	return errors.Join(changed, err)
}

// faultless is Guard for whoever does not ask what was changed but where it keeps him from reading.
func (m *Model) faultless(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		// A panic that is not recovered keeps its stack: first it is looked whether there is a reason.
		if changed := m.Unchanged(); changed != nil && recover() != nil {
			err = changed
		}
	}()
	return read()
}
