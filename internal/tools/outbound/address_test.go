package outbound

import (
	"net/netip"
	"strings"
	"testing"
)

func TestPublic(t *testing.T) {
	for _, c := range []struct {
		addr string
		want bool
	}{
		{"1.1.1.1", true}, {"93.184.216.34", true}, {"172.15.255.255", true}, {"172.32.0.0", true}, {"100.63.255.255", true}, {"100.128.0.0", true},
		{"0.0.0.0", false}, {"0.1.2.3", false}, {"10.1.2.3", false}, {"100.64.0.1", false}, {"100.127.255.255", false}, {"127.0.0.1", false},
		{"127.255.255.254", false}, {"169.254.169.254", false}, {"169.254.0.1", false}, {"172.16.0.1", false}, {"172.31.255.255", false},
		{"192.0.0.192", false}, {"192.0.2.1", false}, {"192.88.99.1", false}, {"192.168.0.1", false}, {"198.18.0.1", false}, {"198.51.100.1", false},
		{"203.0.113.9", false}, {"224.0.0.1", false}, {"239.255.255.250", false}, {"240.0.0.1", false}, {"255.255.255.255", false},
		{"168.63.129.16", false}, {"100.100.100.200", false},
		{"2606:4700:4700::1111", true}, {"2a00:1450:4001:80b::200e", true},
		{"::", false}, {"::1", false}, {"::7f00:1", false}, {"fe80::1", false}, {"fe80::1%eth0", false}, {"fec0::1", false}, {"fc00::1", false},
		{"fd00:ec2::254", false}, {"fd20:ce::254", false}, {"ff02::1", false}, {"100::1", false}, {"2001:db8::1", false}, {"3fff::1", false},
		{"2001::1", false}, {"64:ff9b:1::1", false}, {"5f00::1", false},
		{"::ffff:127.0.0.1", false}, {"::ffff:1.1.1.1", true}, {"::ffff:169.254.169.254", false},
		{"64:ff9b::7f00:1", false}, {"64:ff9b::a9fe:a9fe", false}, {"64:ff9b::101:101", true},
		{"2002:7f00:1::", false}, {"2002:c0a8:1::1", false}, {"2002:101:101::1", true},
		{"2a00::5efe:a00:1", false}, {"2a00::200:5efe:7f00:1", false},
	} {
		if got := public(netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s: public %v, want %v", c.addr, got, c.want)
		}
	}
}

// FuzzPublic: what net/netip knows of an address is never public, and IPv4 is the same address in
// each of its IPv6 forms.
func FuzzPublic(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{8, 8, 8, 8})
	f.Add([]byte{0x20, 0x02, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		addr, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		known := addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified()
		if known && public(addr) {
			t.Errorf("%s counts as public", addr)
		}
		if !addr.Is4() {
			return
		}
		four := addr.As4()
		for _, form := range [][16]byte{
			{10: 0xff, 11: 0xff, 12: four[0], 13: four[1], 14: four[2], 15: four[3]},
			{1: 0x64, 2: 0xff, 3: 0x9b, 12: four[0], 13: four[1], 14: four[2], 15: four[3]},
			{0: 0x20, 1: 0x02, 2: four[0], 3: four[1], 4: four[2], 5: four[3], 15: 1},
		} {
			if six := netip.AddrFrom16(form); public(six) != public(addr) {
				t.Errorf("%s: public %v, %s: public %v", six, public(six), addr, public(addr))
			}
		}
	})
}

func TestAllow(t *testing.T) {
	for _, c := range []struct {
		entry, name, address string // of the request, of the connection
		want                 bool
	}{
		{"wiki.corp", "wiki.corp:80", "10.0.0.5:80", true},
		{"wiki.corp", "WIKI.corp.:8080", "10.0.0.5:8080", true},
		{"wiki.corp:8080", "wiki.corp:8080", "10.0.0.5:8080", true},
		{"wiki.corp:8080", "wiki.corp:80", "10.0.0.5:80", false},
		{"wiki.corp", "evil.wiki.corp:80", "10.0.0.5:80", false},
		{"wiki.corp", "wiki.corp:80", "169.254.169.254:80", false},
		{"wiki.corp", "wiki.corp:80", "[fd00:ec2::254]:80", false},
		{"169.254.169.254", "x.example:80", "169.254.169.254:80", true},
		{"10.0.0.5", "any.example:80", "10.0.0.5:80", true},
		{"10.0.0.5", "any.example:80", "10.0.0.6:80", false},
		{"10.0.0.5:443", "any.example:443", "10.0.0.5:443", true},
		{"10.0.0.5:443", "any.example:80", "10.0.0.5:80", false},
		{"10.0.0.0/8", "any.example:80", "10.255.0.1:80", true},
		{"10.0.0.0/8", "any.example:80", "[::ffff:10.255.0.1]:80", true},
		{"10.0.0.0/8", "any.example:80", "11.255.0.1:80", true}, // public
		{"10.0.0.0/8", "any.example:80", "192.168.0.1:80", false},
		{"::1", "x:80", "[::1]:80", true},
		{"[::1]", "x:80", "[::1]:80", true},
		{"[::1]:80", "x:80", "[::1]:80", true},
		{"[::1]:80", "x:81", "[::1]:81", false},
		{"fd00::/8", "x:80", "[fd12::1]:80", true},
		{"fe80::1", "x:80", "[fe80::1%eth0]:80", true},
	} {
		allow, err := parseAllow([]string{c.entry})
		if err != nil {
			t.Errorf("%s: %v", c.entry, err)
			continue
		}
		if got := allow.check(c.address, allow.name(c.name)) == nil; got != c.want {
			t.Errorf("%s allowed, %s at %s: %v, want %v", c.entry, c.name, c.address, got, c.want)
		}
	}
}

func TestCheckAllow(t *testing.T) {
	if err := CheckAllow([]string{"a", "b:80", "10.0.0.0/8", " [::1]:3 ", "::1"}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "http://host", "host/path", "host:0", "host:65536", "host:x", "[::1]:x", "a b", "10.0.0.0/33", "[x", "u@h"} {
		err := CheckAllow([]string{"good", bad})
		if err == nil || strings.ContainsRune(err.Error(), '\n') {
			t.Errorf("%q is allowed, or its error has two lines: %v", bad, err)
		}
	}
}

// FuzzAllow: no entry lets a client connect to what it does not name.
func FuzzAllow(f *testing.F) {
	for _, seed := range []string{"a:1", "10.0.0.0/8", "[::1]:80", "[::", ":80", "a:", "%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		allow, err := parseAllow([]string{entry})
		if err != nil && len(allow.ranges)+len(allow.names) > 0 {
			t.Errorf("%q is refused (%v) and allows %v", entry, err, allow)
		}
		if allow.name("other.example:80") && !strings.Contains(strings.ToLower(entry), "other.example") {
			t.Errorf("%q allows other.example", entry)
		}
		if len(allow.ranges) == 0 && allow.check("10.0.0.1:80", false) == nil {
			t.Errorf("%q allows 10.0.0.1", entry)
		}
	})
}

func TestCheckPage(t *testing.T) {
	for _, c := range []struct{ page, err string }{
		{"https://example.com/a?b#c", ""},
		{"http://example.com:8080", ""},
		{"file:///etc/passwd", "only http and https addresses are opened, not \"file:\""},
		{"gopher://x/", "only http and https addresses are opened, not \"gopher:\""},
		{"example.com", "only http and https addresses are opened, not \":\""},
		{"https:///path", "the URL names no host"},
		{"https://user:pw@example.com/", "a URL with a user name is not opened"},
		{"http://[::1", "it is no valid URL"},
		{"http://a\n.example", "it is no valid URL"},
	} {
		page, err := CheckPage(c.page)
		if (err == nil) != (c.err == "") || (err != nil && err.Error() != c.err) {
			t.Errorf("%q: %v, want %q", c.page, err, c.err)
		}
		if err == nil && page.Fragment != "" {
			t.Errorf("%q keeps its fragment", c.page)
		}
	}
}

func TestCheckPublic(t *testing.T) {
	for page, want := range map[string]bool{
		"https://example.com/": true, "https://1.1.1.1/": true, "http://[2606:4700:4700::1111]/": true,
		"http://10.0.0.1/": false, "http://[::1]:80/": false, "http://localhost/": false, "http://a.LOCALHOST./": false, "http://printer.local/": false,
		"http://metadata.google.internal/": false, "http://intranet/": false, "http://nas.home.arpa/": false,
	} {
		address, err := CheckPage(page)
		if err != nil {
			t.Fatal(err)
		}
		if got := CheckPublic(address) == nil; got != want {
			t.Errorf("%s: %v, want %v", page, got, want)
		}
	}
}

// FuzzCheckPage: what passes is http or https with a host and without a user, and its text reads
// as the same.
func FuzzCheckPage(f *testing.F) {
	for _, seed := range []string{"https://a/b?c#d", "http://u@h/", "//x", "http://[::1]:80/", "http://%41/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		page, err := CheckPage(address)
		if err != nil {
			return
		}
		_ = CheckPublic(page)
		again, err := CheckPage(page.String())
		if err != nil || again.Host != page.Host || again.User != nil {
			t.Errorf("%q became %q, which reads as %v, %v", address, page, again, err)
		}
	})
}
