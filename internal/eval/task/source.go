package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"time"

	"ossian/internal/hub"
)

// Sources say where data may come from.
type Sources struct {
	Hub       func() (hub.Config, error) // asked when a source begins with hf:
	Transport http.RoundTripper          // of https; nil = the standard one
}

// Open reads the data of t from its sources, one behind the other: paths of files, hf:ORG/NAME,
// https addresses. A task that makes its own questions has none. Its errors name source and row.
func (t *Task) Open(ctx context.Context, from Sources, sources []string, anyData bool) (*Set, error) {
	if t.Generated() {
		if len(sources) > 0 {
			return nil, fmt.Errorf("--dataset %s=%.200s: %s makes its questions itself; leave it out", t.Name, sources[0], t.Name)
		}
		return t.newSet(t.generate(), false)
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("%s: its questions are not part of Ossian: --dataset %s=FILE names them, or --dataset %s=hf:ORG/NAME", t.Name, t.Name, t.Name)
	}
	var rows []record
	for _, source := range sources {
		files, err := from.files(ctx, t, source)
		if err != nil {
			return nil, fmt.Errorf("--dataset %s=%.200s: %w", t.Name, source, err)
		}
		for _, file := range files {
			read, err := parse(file.name, file.data)
			if err == nil {
				err = t.hasColumns(read)
			}
			if err != nil {
				return nil, fmt.Errorf("--dataset %s=%.200s: %s: %w", t.Name, source, file.name, err)
			}
			// Rows are numbered within their file.
			for i := range read {
				read[i].where = file.name + ", " + read[i].where
			}
			rows = append(rows, read...)
		}
	}
	set, err := t.newSet(rows, anyData)
	if err != nil {
		return nil, fmt.Errorf("--dataset %s=%.200s: %w", t.Name, strings.Join(sources, ", "), err)
	}
	return set, nil
}

// hasColumns says which column no row has, which is told of the file and not of its first row.
func (t *Task) hasColumns(rows []record) error {
	for _, column := range t.columns {
		if _, ok := rows[0].fields[column]; !ok {
			return t.missingColumn(column, rows[0].fields)
		}
	}
	return nil
}

// A file is the content of one, and the name it goes by.
type file struct {
	name string
	data []byte
}

// files reads what a source stands for.
func (from Sources) files(ctx context.Context, t *Task, source string) ([]file, error) {
	if name, ok := strings.CutPrefix(source, "hf:"); ok {
		return from.hubFiles(ctx, t, name)
	}
	if strings.HasPrefix(source, "https:") {
		data, err := from.fetch(ctx, source)
		if err != nil {
			return nil, err
		}
		at, _ := url.Parse(source) // it was fetched
		return []file{{path.Base(at.Path), data}}, nil
	}
	if strings.HasPrefix(source, "http:") {
		return nil, errors.New("expected https, by which nobody on the way can change the questions")
	}
	data, err := readSmall(source, maxFile)
	if err != nil {
		return nil, err
	}
	return []file{{filepath.Base(source), data}}, nil
}

// hubFiles brings files of a data set into the cache and reads them.
func (from Sources) hubFiles(ctx context.Context, t *Task, source string) (files []file, err error) {
	name, err := hub.ParseData(source)
	if err != nil {
		return nil, err
	}
	wanted := t.files
	if name.File != "" {
		wanted = []string{name.File}
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("which file of it? Name it as hf:%s/FILE", name.Repo)
	}
	name.File = "" // the repository
	cfg, err := from.Hub()
	if err != nil {
		return nil, err
	}
	paths, _, err := hub.PullData(ctx, cfg, name, wanted)
	if err != nil {
		return nil, err
	}
	for i, at := range paths {
		data, err := readSmall(at, maxFile)
		if err != nil {
			return nil, err
		}
		files = append(files, file{wanted[i], data})
	}
	return files, nil
}

// fetch gets an address, also by redirects, but never without encryption.
func (from Sources) fetch(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errors.New("not an address")
	}
	client := http.Client{Transport: from.Transport, CheckRedirect: func(to *http.Request, via []*http.Request) error {
		if to.URL.Scheme != "https" || len(via) > 5 {
			return errors.New("redirected away from https, or without end")
		}
		return nil
	}}
	reply, err := client.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the address, which is named already
		}
		return nil, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answered %s; fetch it by hand and name the file", reply.Status)
	}
	data, err := io.ReadAll(io.LimitReader(reply.Body, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("more than %d MiB; data sets of questions are smaller", maxFile>>20)
	}
	return data, nil
}
