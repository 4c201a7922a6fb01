package bench

// An event is what one JSON object of a stream says. It is reused: its byte slices
// keep their memory, and fault points into what was parsed.
type event struct {
	choices  bool      // choices is an array with something in it; what follows is of the first
	role     bool      // delta.role is there
	blank    bool      // delta.content is ""
	tools    bool      // delta.tool_calls has something in it
	nothing  bool      // text is ""
	text     []byte    // text
	content  []byte    // delta.content
	thoughts [2][]byte // delta.reasoning_content, delta.reasoning: servers send either or both
	ids      int       // how many token_ids; -1 = not given
	finish   []byte    // finish_reason
	usage    bool
	counts   Counts // of usage
	kind     []byte // Responses: type
	delta    []byte // Responses: delta, where it is text
	fault    []byte // error, as it came; nil = none or null
}

// visible is the text that a reader sees.
func (e *event) visible() []byte {
	if len(e.text) > 0 {
		return e.text
	}
	return e.content
}

func (e *event) thought() []byte {
	if len(e.thoughts[0]) > 0 {
		return e.thoughts[0]
	}
	return e.thoughts[1]
}

// output reports whether the choice brings something: a token may decode to nothing,
// but an empty content beside a role announces the answer only.
func (e *event) output() bool {
	return len(e.visible()) > 0 || len(e.thought()) > 0 || e.tools || e.nothing || (e.blank && !e.role)
}

func (e *event) reset() {
	e.resetChoice()
	e.choices, e.usage, e.counts = false, false, unknown
	e.kind, e.delta, e.fault = e.kind[:0], e.delta[:0], nil
}

func (e *event) resetChoice() {
	e.text, e.ids, e.finish, e.nothing = e.text[:0], -1, e.finish[:0], false
	e.resetDelta()
}

func (e *event) resetDelta() {
	e.role, e.blank, e.tools = false, false, false
	e.content, e.thoughts[0], e.thoughts[1] = e.content[:0], e.thoughts[0][:0], e.thoughts[1][:0]
}

var unknown = Counts{-1, -1, -1, -1}

// parse reads one object. Members that are not of the expected type count as absent,
// and of repeated members the last one counts, as with encoding/json.
func (e *event) parse(b []byte) verdict {
	e.reset()
	s := scanner{b: b}
	for more := s.open('{'); more; more = s.next('}') {
		switch string(s.key()) {
		case "choices":
			e.readChoices(&s)
		case "usage":
			e.readUsage(&s)
		case "error":
			e.fault = s.value()
		case "type":
			e.kind = s.text(e.kind)
		case "delta":
			e.delta = s.text(e.delta)
		case "response":
			e.readResponse(&s)
		default:
			s.skip()
		}
	}
	return s.end()
}

func (e *event) readChoices(s *scanner) {
	e.choices = false
	e.resetChoice()
	if s.peek() != '[' {
		s.skip()
		return
	}
	for more := s.open('['); more; more = s.next(']') {
		if e.choices || s.peek() != '{' {
			s.skip()
		} else {
			e.readChoice(s)
		}
		e.choices = true
	}
}

func (e *event) readChoice(s *scanner) {
	for more := s.open('{'); more; more = s.next('}') {
		switch string(s.key()) {
		case "text":
			given := s.peek() == '"'
			e.text = s.text(e.text)
			e.nothing = given && len(e.text) == 0
		case "delta", "message":
			e.readDelta(s)
		case "finish_reason":
			e.finish = s.text(e.finish)
		case "token_ids":
			e.ids = s.count()
		default:
			s.skip()
		}
	}
}

func (e *event) readDelta(s *scanner) {
	e.resetDelta()
	if s.peek() != '{' {
		s.skip()
		return
	}
	for more := s.open('{'); more; more = s.next('}') {
		switch string(s.key()) {
		case "role":
			e.role = s.value() != nil
		case "content":
			given := s.peek() == '"'
			e.content = s.text(e.content)
			e.blank = given && len(e.content) == 0
		case "tool_calls":
			e.tools = s.count() > 0
		case "reasoning_content":
			e.thoughts[0] = s.text(e.thoughts[0])
		case "reasoning":
			e.thoughts[1] = s.text(e.thoughts[1])
		default:
			s.skip()
		}
	}
}

// readResponse reads the response that the last event of Responses holds.
func (e *event) readResponse(s *scanner) {
	e.usage, e.counts, e.finish, e.fault = false, unknown, e.finish[:0], nil
	if s.peek() != '{' {
		s.skip()
		return
	}
	for more := s.open('{'); more; more = s.next('}') {
		switch string(s.key()) {
		case "usage":
			e.readUsage(s)
		case "status":
			e.finish = s.text(e.finish)
		case "error":
			e.fault = s.value()
		default:
			s.skip()
		}
	}
}

func (e *event) readUsage(s *scanner) {
	e.usage, e.counts = false, unknown
	if s.peek() != '{' {
		s.skip()
		return
	}
	e.usage = true
	for more := s.open('{'); more; more = s.next('}') {
		switch string(s.key()) {
		case "prompt_tokens", "input_tokens":
			e.counts.Prompt = s.integer()
		case "completion_tokens", "output_tokens":
			e.counts.Completion = s.integer()
		case "prompt_tokens_details", "input_tokens_details":
			e.counts.Cached = s.member("cached_tokens")
		case "completion_tokens_details", "output_tokens_details":
			e.counts.Reasoning = s.member("reasoning_tokens")
		default:
			s.skip()
		}
	}
}
