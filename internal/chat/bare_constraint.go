package chat

import "ossian/internal/chat/mask"

// maskBare is the mask of an answer that is a call without tags or, unless it has to be
// one, something else: a form, or text that does not begin like a call. As long as it may
// be both, both say what may come next. open says that reasoning may begin.
func (c *tagConstraint) maskBare(dst []uint64, open bool) error {
	rules := c.rules
	begins := *c
	if c.at != tagAnswer { // the answer may begin here
		begins.answer()
	}
	clear(dst)
	if begins.call != nil {
		if err := begins.call.Mask(dst); err != nil {
			return err
		}
		if begins.call.Done() {
			mask.Allow(dst, rules.stops...)
		}
	}
	if begins.other {
		free := rules.textIDs.Any
		if !c.begun {
			free = rules.textIDs.First
		}
		if c.scratch == nil {
			c.scratch = make([]uint64, len(dst))
		}
		end, err := allowText(c.scratch, free, begins.text)
		if err != nil {
			return err
		}
		for i := range dst {
			dst[i] |= c.scratch[i]
		}
		if end {
			mask.Allow(dst, rules.stops...)
		}
	}
	switch {
	case open:
		mask.Allow(dst, rules.open)
	case c.at == tagGap:
		c.gap(dst)
	}
	return nil
}

// acceptBare advances what the answer may still be.
func (c *tagConstraint) acceptBare(id int32) error {
	// The answer may be a call, other text, or still either: the id has to go on with one of them.
	if c.call != nil && c.call.Accept(id) != nil {
		c.call = nil
	}
	switch {
	case !c.other:
	case c.text != nil:
		c.other = c.text.Accept(id) == nil
	default:
		ids := c.rules.textIDs.Any
		if !c.begun {
			ids = c.rules.textIDs.First
		}
		c.other = ids[id/64]>>(id%64)&1 == 1
	}
	c.begun = true
	if c.call == nil && !c.other {
		return unexpected(id)
	}
	return nil
}
