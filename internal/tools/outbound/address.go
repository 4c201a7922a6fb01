package outbound

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// special are the IPv4 ranges that are not the public internet: the IANA IPv4 Special-Purpose
// Address Registry (RFC 6890 and what extends it), multicast, and what is reserved.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")

// special6 are the ranges within global6 that are not public: protocol assignments with Teredo,
// documentation (RFC 3849, RFC 9637). Outside global6 nothing is, but for nat64.
var special6 = prefixes("2001::/23", "2001:db8::/32", "3fff::/20")

var (
	global6 = netip.MustParsePrefix("2000::/3")
	nat64   = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: IPv4 in the last 4 bytes
	sixto4  = netip.MustParsePrefix("2002::/16")    // RFC 3056: IPv4 in bytes 2 to 5
)

// metadata are the addresses at which clouds tell a machine its secrets. Some lie in ranges that
// are public otherwise.
var metadata = prefixes(
	"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "fd00:ec2::254/128", "fd00:ec2::23/128", // Amazon and most others
	"fd20:ce::254/128", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32") // Google, Azure, Alibaba, Oracle

func prefixes(all ...string) (out []netip.Prefix) {
	for _, one := range all {
		out = append(out, netip.MustParsePrefix(one))
	}
	return out
}

func within(ranges []netip.Prefix, addr netip.Addr) bool {
	for _, one := range ranges {
		if one.Contains(addr) {
			return true
		}
	}
	return false
}

// inner returns the address at which a packet to addr arrives: what is in it of IPv4, where it
// holds some for a translator or a tunnel, else itself.
func inner(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr
	}
	bytes := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(bytes[12:]))
	case sixto4.Contains(addr):
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	case bytes[8]&^2 == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe: // ISATAP, RFC 5214 6.1
		return netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return addr
}

// public reports whether an address belongs to the public internet, and to no cloud's metadata.
func public(addr netip.Addr) bool {
	zoneless := addr.Unmap().WithZone("")
	if zoneless.Is6() && !nat64.Contains(zoneless) && (!global6.Contains(zoneless) || within(special6, zoneless)) {
		return false
	}
	arrives := inner(addr)
	return arrives.IsValid() && !within(metadata, arrives) && !(arrives.Is4() && within(special, arrives))
}

// allowed is what an operator lets clients connect to.
type allowed struct {
	ranges []allowedRange
	names  []allowedName
}

type allowedRange struct {
	of   netip.Prefix
	port uint16 // 0 = any
}

type allowedName struct{ host, port string } // "" = any port

// CheckAllow says which entry is none of HOST, HOST:PORT, IP, IP:PORT and CIDR.
func CheckAllow(entries []string) error {
	_, err := parseAllow(entries)
	return err
}

// parseAllow returns what the valid entries allow, and an error that names the first other one.
func parseAllow(entries []string) (all allowed, bad error) {
	for _, entry := range entries {
		if err := all.add(strings.TrimSpace(entry)); err != nil && bad == nil {
			bad = fmt.Errorf("%.100q is no address that can be allowed: expected HOST, HOST:PORT, IP, IP:PORT or a range such as 10.0.0.0/8: %w", entry, err)
		}
	}
	return all, bad
}

// add takes one entry.
func (a *allowed) add(entry string) error {
	if of, err := netip.ParsePrefix(entry); err == nil {
		a.ranges = append(a.ranges, allowedRange{of: of.Masked()})
		return nil
	}
	host, port, err := split(entry)
	if err != nil {
		return err
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap().WithZone("")
		number, _ := strconv.ParseUint(port, 10, 16) // as split has found
		a.ranges = append(a.ranges, allowedRange{netip.PrefixFrom(addr, addr.BitLen()), uint16(number)})
		return nil
	}
	if host = canonical(host); host == "" || strings.ContainsAny(host, "/?#@:[]% ") {
		return fmt.Errorf("%.100q is no host name", host)
	}
	a.names = append(a.names, allowedName{host, port})
	return nil
}

// split returns the host and the port, "" = none, of an entry.
func split(entry string) (host, port string, err error) {
	if bare, ok := strings.CutPrefix(entry, "["); ok && strings.HasSuffix(bare, "]") {
		return strings.TrimSuffix(bare, "]"), "", nil
	}
	if strings.Count(entry, ":") != 1 && !strings.HasPrefix(entry, "[") {
		return entry, "", nil // a name, or IPv6
	}
	host, port, err = net.SplitHostPort(entry)
	if err != nil {
		return "", "", err
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return "", "", fmt.Errorf("port %.20q is none of 1 to 65535", port)
	}
	return host, port, nil
}

// canonical returns a host name as it is compared.
func canonical(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// name reports whether HOST:PORT is allowed by its name.
func (a *allowed) name(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	for _, one := range a.names {
		if one.host == canonical(host) && (one.port == "" || one.port == port) {
			return true
		}
	}
	return false
}

// check returns why a connection to IP:PORT must not be made. An allowed name may be at any
// address but that of a cloud's metadata: nobody who allows a host means these.
func (a *allowed) check(address string, named bool) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return notPublic
	}
	addr := at.Addr()
	if public(addr) || (named && !within(metadata, inner(addr))) {
		return nil
	}
	for _, one := range a.ranges {
		if (one.port == 0 || one.port == at.Port()) && (one.of.Contains(addr.Unmap().WithZone("")) || one.of.Contains(inner(addr))) {
			return nil
		}
	}
	return notPublic
}

// scheme refuses all but http and https.
func scheme(address *url.URL) error {
	if address.Scheme == "http" || address.Scheme == "https" {
		return nil
	}
	return refuse("only http and https addresses are opened, not %.20q", address.Scheme+":")
}

// CheckPage returns why an address that a model gave must not be asked for, as far as that shows
// in it: also of somebody else, who should not learn what there is in the operator's network.
func CheckPage(address string) (*url.URL, error) {
	page, err := url.Parse(address)
	if err != nil {
		return nil, &Error{Reason: "it is no valid URL"}
	}
	if err := scheme(page); err != nil {
		return nil, err
	}
	switch {
	case page.Hostname() == "":
		return nil, &Error{Reason: "the URL names no host"}
	case page.User != nil:
		return nil, &Error{Reason: "a URL with a user name is not opened"}
	}
	page.Fragment, page.RawFragment = "", ""
	return page, nil
}

// CheckPublic returns why a page that somebody else is to fetch must not be named to them: its
// host is an address that is not public, or a name that only this network has.
func CheckPublic(page *url.URL) error {
	host := canonical(page.Hostname())
	if addr, err := netip.ParseAddr(host); err == nil {
		if public(addr) {
			return nil
		}
		return notPublic
	}
	for _, own := range []string{".localhost", ".local", ".internal", ".home.arpa"} {
		if strings.HasSuffix("."+host, own) {
			return notPublic
		}
	}
	if !strings.Contains(host, ".") {
		return notPublic
	}
	return nil
}
