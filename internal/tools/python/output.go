package python

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// How much of an output the model gets: its beginning and its end.
const (
	textHead = 12 << 10
	textTail = 4 << 10
)

// silent is the result of code that prints nothing; the models know this line.
const silent = "[WARN] No output available. Use print() to output anything to stdout to receive the output"

// A capture keeps the beginning and the end of what is written to it, whatever that is.
type capture struct {
	most  int    // bytes of the beginning
	head  []byte //
	tail  []byte // the last bytes behind the beginning, at least textTail
	total int64
}

// Write keeps what it can. It does not fail.
func (c *capture) Write(part []byte) (int, error) {
	length := len(part)
	c.total += int64(length)
	if room := c.most - len(c.head); room > 0 {
		c.head = append(c.head, part[:min(room, length)]...)
		part = part[min(room, length):]
	}
	c.tail = append(c.tail, part[max(0, len(part)-textTail):]...)
	if len(c.tail) > 16*textTail { // now and then, not at each write
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-textTail:]...)
	}
	return length, nil
}

// An output is text of which a part may be missing in the middle.
type output struct {
	head, tail string // tail is behind what is missing
	omitted    int64
}

func (c *capture) output() output {
	tail := c.tail[max(0, len(c.tail)-textTail):]
	return output{string(c.head), string(tail), c.total - int64(len(c.head)) - int64(len(tail))}
}

// followed returns an output with another behind it.
func (o output) followed(by output) output {
	if o.omitted == 0 {
		return output{o.head + o.tail + by.head, by.tail, by.omitted}
	}
	if by.omitted == 0 {
		return output{o.head, o.tail + by.head + by.tail, o.omitted}
	}
	// What lies between the two gaps is omitted as well.
	return output{o.head, by.tail, o.omitted + by.omitted + int64(len(o.tail)+len(by.head))}
}

// cut returns an output as text: all of it, or its beginning and end and how much is not there.
func (o output) cut(head, tail int) string {
	if o.omitted == 0 && len(o.head)+len(o.tail) <= head+tail {
		return o.head + o.tail
	}
	whole := int64(len(o.head)) + int64(len(o.tail)) + o.omitted
	end := o.tail
	if o.omitted == 0 {
		o.head += o.tail
		end = o.head
	}
	begin := o.head[:boundary(o.head, min(head, len(o.head)))]
	from := max(0, len(end)-tail)
	for from < len(end) && !utf8.RuneStart(end[from]) {
		from++
	}
	end = end[from:]
	return fmt.Sprintf("%s\n…[%d bytes omitted]…\n%s", begin, whole-int64(len(begin)+len(end)), end)
}

// boundary returns the last place up to at where a character begins.
func boundary(text string, at int) int {
	for back := 0; back < utf8.UTFMax && at > 0 && at < len(text) && !utf8.RuneStart(text[at]); back++ {
		at--
	}
	return at
}

// compose puts a result together: what was printed, then on a line of its own what went wrong.
func compose(printed, complaints output, notes ...string) output {
	if complaints.head != "" {
		printed = printed.ended().followed(complaints)
	}
	for _, note := range notes {
		printed = printed.ended().followed(output{head: note})
	}
	if printed.omitted == 0 && strings.TrimSpace(printed.head+printed.tail) == "" {
		return output{head: silent}
	}
	return printed
}

// ended returns an output of which the last line has ended, unless there is none.
func (o output) ended() output {
	last := &o.head
	if o.omitted > 0 || o.tail != "" {
		last = &o.tail
	}
	*last = strings.TrimRight(*last, " \t\r\n")
	if o.omitted > 0 || o.head != "" {
		*last += "\n"
	}
	return o
}
