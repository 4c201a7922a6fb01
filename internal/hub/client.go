package hub

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	maxPage    = 64 << 20        // bytes of one API answer
	maxHint    = 1 << 20         // bytes of one that only helps a message
	maxFile    = 1 << 44         // bytes of one file
	maxEntries = 200_000         // files of one repository
	maxWait    = 5 * time.Minute // that an endpoint may ask for
	apiTries   = 4               // of an API call, in all
	baseWait   = time.Second     // before the first retry; doubles up to 32 times
)

// A client speaks to one endpoint. The token is sent to that endpoint only.
type client struct {
	cfg  Config
	base *url.URL
	http *http.Client
}

// newClient returns a client of cfg.Endpoint.
func newClient(cfg Config) (*client, error) {
	base, err := url.Parse(strings.TrimRight(cfg.Endpoint, "/"))
	if err != nil || base.Host == "" || (base.Scheme != "https" && base.Scheme != "http") {
		return nil, fmt.Errorf("endpoint %q: expected http(s)://host[/path]", cfg.Endpoint)
	}
	if base.User != nil { // it would show in messages
		return nil, fmt.Errorf("endpoint on %s: a user in the address is not supported, set HF_TOKEN", base.Host)
	}
	made := &client{cfg: cfg, base: base}
	made.http = &http.Client{Transport: cfg.Transport, CheckRedirect: made.redirect}
	return made, nil
}

// redirect lets a download move to another host, without the token and never
// from https to http.
func (c *client) redirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return permanentError{errors.New("more than 10 redirects")}
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return permanentError{fmt.Errorf("redirected from https to %.20s://%.100s", req.URL.Scheme, req.URL.Host)}
	}
	if !c.own(req.URL) {
		req.Header.Del("Authorization")
	}
	req.Header.Del("Referer")
	return nil
}

// own reports whether u is on the endpoint itself.
func (c *client) own(u *url.URL) bool { return u.Scheme == c.base.Scheme && u.Host == c.base.Host }

// get sends one request. Path elements are escaped; the caller closes the body.
func (c *client) get(ctx context.Context, address *url.URL, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("User-Agent", "ossian")
	if c.cfg.Token != "" && c.own(address) {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	res, err := c.http.Do(req)
	var ue *url.Error
	if bad := malformed(err); bad != nil && !errors.As(err, new(permanentError)) {
		return nil, fmt.Errorf("%s: %w", address.Host, bad)
	}
	if errors.As(err, &ue) { // its text holds the address, which may hold a signature
		if strings.Contains(ue.Err.Error(), address.Hostname()) {
			return nil, ue.Err
		}
		return nil, fmt.Errorf("%s: %w", address.Host, ue.Err)
	}
	return res, err
}

// at returns the address of a path below the endpoint.
func (c *client) at(elements ...string) *url.URL {
	escaped := make([]string, len(elements))
	for i, e := range elements {
		escaped[i] = url.PathEscape(e)
	}
	return c.base.JoinPath(escaped...)
}

// A StatusError is an answer that is neither success nor worth another try.
type StatusError struct {
	Status int    // HTTP status
	Code   string // X-Error-Code of the endpoint, "" if none
}

// Error names the status and the code.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("the endpoint answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Code != "" {
		text += fmt.Sprintf(" (%.60q)", e.Code)
	}
	return text
}

// busyError is an answer that asks to come back.
type busyError struct {
	StatusError
	after time.Duration // Retry-After; 0 = not said
}

// check turns a bad status into an error.
func check(res *http.Response, now time.Time) error {
	if res.StatusCode < 300 {
		return nil
	}
	status := StatusError{Status: res.StatusCode, Code: res.Header.Get("X-Error-Code")}
	if code := res.StatusCode; code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || (code >= 500 && code != http.StatusNotImplemented) {
		return &busyError{status, retryAfter(res.Header.Get("Retry-After"), now)}
	}
	return &status
}

// retryAfter reads seconds or a date (RFC 9110 10.2.3); 0 = none.
func retryAfter(v string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(v); err == nil {
		return time.Duration(min(max(n, 0), int(maxWait/time.Second))) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(t.Sub(now), 0), maxWait)
	}
	return 0
}

// retry calls f until it succeeds, fails for good, or fails tries times in a row
// without progress, which f reports.
func (c *client) retry(ctx context.Context, tries int, f func() (progress bool, err error)) error {
	for tried := 1; ; tried++ {
		progress, err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if permanent(err) {
			return err
		}
		if progress { // tries in a row are counted, and this one led on
			tried = 1
		}
		if tried >= tries {
			return fmt.Errorf("given up after %d tries: %w", tried, err)
		}
		wait := baseWait << min(tried-1, 5)
		var busy *busyError
		if errors.As(err, &busy) && busy.after > 0 {
			wait = busy.after
		}
		if err := c.cfg.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// permanentError is a failure that another try would repeat.
type permanentError struct{ error }

// Unwrap returns the failure itself.
func (e permanentError) Unwrap() error { return e.error }

// permanent reports whether another try would end as this one: a refusal, a certificate that is
// not good, a name that nobody has.
func permanent(err error) bool {
	var permanent permanentError
	var status *StatusError
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	return errors.As(err, &permanent) || errors.As(err, &status) || errors.As(err, &certificate) ||
		(errors.As(err, &name) && name.IsNotFound && !name.IsTemporary)
}

// json fetches u, of at most limit bytes, has read take the answer, and returns the address of
// the next page. read is called again where a try has failed.
func (c *client) json(ctx context.Context, tries int, u *url.URL, limit int64, read func(*json.Decoder) error) (next *url.URL, err error) {
	err = c.retry(ctx, tries, func() (bool, error) {
		// An answer is small: one that takes as long as a stalled transfer is tried again.
		ctx, cancel := context.WithTimeout(ctx, c.cfg.Stall)
		defer cancel()
		res, err := c.get(ctx, u, nil)
		if err != nil {
			return false, err
		}
		defer res.Body.Close()
		if err := check(res, time.Now()); err != nil {
			return false, err
		}
		body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
		if err != nil {
			return false, cmp.Or(malformed(err), err)
		}
		if int64(len(body)) > limit {
			return false, permanentError{fmt.Errorf("%s: an answer of more than %d bytes", u.Path, limit)}
		}
		if err := read(json.NewDecoder(bytes.NewReader(body))); err != nil {
			if _, told := errors.AsType[permanentError](err); told {
				return false, err
			}
			return false, permanentError{fmt.Errorf("%s: not the answer of a model hub: it begins with %.60q", u.Path, body)}
		}
		next, err = c.nextPage(u, res.Header.Get("Link"))
		return false, err
	})
	return next, err
}

// into returns a reader for json of one value, into v.
func into(v any) func(*json.Decoder) error {
	return func(from *json.Decoder) error { return from.Decode(v) }
}

// each returns a reader for json of an array, element by element, so that what an endpoint
// lists is counted before it takes memory: take returns an error where there are too many.
func each[T any](take func(T) error) func(*json.Decoder) error {
	return func(from *json.Decoder) error {
		if begin, err := from.Token(); err != nil || begin != json.Delim('[') {
			return errors.New("no array")
		}
		for from.More() {
			var element T
			if err := from.Decode(&element); err != nil {
				return err
			}
			if err := take(element); err != nil {
				return permanentError{err}
			}
		}
		_, err := from.Token()
		return err
	}
}

// nextPage reads a Link header (RFC 8288). The page must be on the endpoint:
// the token goes with the request.
func (c *client) nextPage(from *url.URL, link string) (*url.URL, error) {
	for part := range strings.SplitSeq(link, ",") {
		target, params, _ := strings.Cut(strings.TrimSpace(part), ">")
		if !strings.HasPrefix(target, "<") || !strings.Contains(params, `rel="next"`) {
			continue
		}
		page, err := from.Parse(target[1:])
		if err != nil || !c.own(page) {
			return nil, permanentError{fmt.Errorf("next page %.200q is not on %s", target[1:], c.base.Host)}
		}
		return page, nil
	}
	return nil, nil
}

// A remote is a file as the endpoint lists it.
type remote struct {
	Path string
	Size int64
	Blob string // name in the cache and digest: SHA-256 of the content, or SHA-1 of the git blob
}

// check refuses what cannot be a file: its digest becomes a name in the cache.
func (r *remote) check() error {
	if !sha256ID.MatchString(r.Blob) && !commitID.MatchString(r.Blob) {
		return fmt.Errorf("%s: the endpoint names digest %.80q, expected SHA-256 or a git blob id", r.Path, r.Blob)
	}
	if r.Size < 0 || r.Size > maxFile {
		return fmt.Errorf("%s: the endpoint names a size of %d bytes", r.Path, r.Size)
	}
	return nil
}

// commit resolves a revision.
func (c *client) commit(ctx context.Context, wanted Name) (string, error) {
	var info struct{ SHA string }
	org, name, _ := strings.Cut(wanted.Repo, "/")
	if _, err := c.json(ctx, apiTries, c.at("api", wanted.kind(), org, name, "revision", wanted.revision()), maxPage, into(&info)); err != nil {
		return "", c.explain(ctx, wanted, err)
	}
	if !commitID.MatchString(info.SHA) {
		return "", fmt.Errorf("%s: the endpoint names commit %.80q, expected 40 hexadecimal digits", wanted, info.SHA)
	}
	return info.SHA, nil
}

// list returns the files of a commit whose names could be files here.
func (c *client) list(ctx context.Context, wanted Name, commit string) ([]remote, error) {
	org, name, _ := strings.Cut(wanted.Repo, "/")
	address := c.at("api", wanted.kind(), org, name, "tree", commit)
	address.RawQuery = "recursive=true"
	type listing struct {
		Type, Path, OID string
		Size            int64
		LFS             *struct {
			OID  string
			Size int64
		}
	}
	var all []remote
	for entries := 0; address != nil; {
		page := 0
		next, err := c.json(ctx, apiTries, address, maxPage, each(func(entry listing) error {
			if page++; entries+page > maxEntries {
				return fmt.Errorf("the endpoint lists more than %d files, or never ends", maxEntries)
			}
			// Large files are known by the SHA-256 of their content, the others by git's id.
			file := remote{entry.Path, entry.Size, entry.OID}
			if entry.LFS != nil {
				file.Size, file.Blob = entry.LFS.Size, entry.LFS.OID
			}
			if entry.Type == "file" && validPath(entry.Path) {
				all = append(all, file)
			}
			return nil
		}))
		if err != nil {
			return nil, c.explain(ctx, wanted, err)
		}
		if page == 0 && next != nil {
			return nil, fmt.Errorf("%s: a page of the endpoint's list is empty and not the last: it never ends", wanted)
		}
		entries += page
		address = next
	}
	return all, nil
}

// explain says what a user can do about a status.
func (c *client) explain(ctx context.Context, wanted Name, err error) error {
	var status *StatusError
	switch {
	case errors.As(err, &status):
	case unreached(err):
		return fmt.Errorf("%s: %s cannot be reached: %w; HF_ENDPOINT names another endpoint, and what was fetched otherwise is used by its path", wanted, c.base.Host, err)
	default:
		return fmt.Errorf("%s: %w", wanted, err)
	}
	page := c.base.JoinPath(wanted.elements()...)
	switch {
	case status.Code == "GatedRepo" || (status.Code == "" && (status.Status == 401 || status.Status == 403)):
		if c.cfg.Token == "" {
			return fmt.Errorf("%s: access is restricted: accept the terms at %s and set HF_TOKEN: %w", wanted, page, err)
		}
		return fmt.Errorf("%s: the token in use has no access: accept the terms at %s, or check HF_TOKEN: %w", wanted, page, err)
	case status.Code == "RevisionNotFound":
		return fmt.Errorf("%s: no branch, tag or commit %q%s: %w", wanted, wanted.revision(), c.similar(ctx, wanted, true), err)
	case status.Code == "RepoNotFound" || status.Status == 404:
		return fmt.Errorf("%s: not found on %s (a private one needs HF_TOKEN)%s: %w", wanted, c.base.Host, c.similar(ctx, wanted, false), err)
	}
	return fmt.Errorf("%s: %w", wanted, err)
}

// unreached reports whether no connection came about.
func unreached(err error) bool {
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		return failed.Op == "dial"
	}
	_, ok := errors.AsType[*net.DNSError](err)
	return ok
}

// similar asks the endpoint for existing revisions or models like the wanted one and returns
// a hint to append; "" when there is none or the endpoint does not tell.
func (c *client) similar(ctx context.Context, wanted Name, revisions bool) string {
	// One try: what failed already is told even without a hint.
	org, name, _ := strings.Cut(wanted.Repo, "/")
	if !revisions {
		var found []struct{ ID string }
		search := c.at("api", wanted.kind())
		search.RawQuery = url.Values{"search": {name}, "limit": {"20"}}.Encode()
		if _, err := c.json(ctx, 1, search, maxHint, into(&found)); err != nil {
			return ""
		}
		var ids []string
		for _, model := range found {
			ids = append(ids, model.ID)
		}
		return c.hint(likely(wanted.Repo, ids))
	}
	var refs struct{ Branches, Tags []struct{ Name string } }
	if _, err := c.json(ctx, 1, c.at("api", wanted.kind(), org, name, "refs"), maxHint, into(&refs)); err != nil {
		return ""
	}
	var names []string
	for _, ref := range append(refs.Branches, refs.Tags...) {
		names = append(names, ref.Name)
	}
	return c.hint(likely(wanted.revision(), names))
}

// hint writes a name that came from the endpoint, if it has the form of one.
func (c *client) hint(name string) string {
	if name == "" || !validRevision(name) {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", name)
}
