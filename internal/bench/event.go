package bench

// An event is what one JSON object of a stream says: of completions, of chat, or of
// Responses, whose members do not collide. It is reused: its byte slices keep their memory,
// and fault points into what was parsed.
type event struct {
	choices      bool      // choices is an array with something in it; what follows is of the first
	role         bool      // delta.role is there
	emptyContent bool      // delta.content is ""
	tools        bool      // delta.tool_calls has something in it
	emptyText    bool      // text is ""
	text         []byte    // text
	content      []byte    // delta.content
	thoughts     [2][]byte // delta.reasoning_content, delta.reasoning: servers send either or both
	tokenIDs     int       // how many token_ids; -1 = not given
	finish       []byte    // finish_reason
	usage        bool      // usage is there
	counts       Counts    // of usage
	eventType    []byte    // Responses: type
	delta        []byte    // Responses: delta, where it is text
	fault        []byte    // error, as it came; nil = none or null
}

// visible is the text that a reader sees.
func (e *event) visible() []byte {
	if len(e.text) > 0 {
		return e.text
	}
	return e.content
}

// thought is the text of reasoning.
func (e *event) thought() []byte {
	if len(e.thoughts[0]) > 0 {
		return e.thoughts[0]
	}
	return e.thoughts[1]
}

// output reports whether the choice brings something: a token may decode to nothing,
// but an empty content beside a role announces the answer only.
func (e *event) output() bool {
	return len(e.visible()) > 0 || len(e.thought()) > 0 || e.tools || e.emptyText || (e.emptyContent && !e.role)
}

func (e *event) reset() {
	e.resetChoice()
	e.choices, e.usage, e.counts = false, false, unknownCounts
	e.eventType, e.delta, e.fault = e.eventType[:0], e.delta[:0], nil
}

func (e *event) resetChoice() {
	e.text, e.tokenIDs, e.finish, e.emptyText = e.text[:0], -1, e.finish[:0], false
	e.resetDelta()
}

func (e *event) resetDelta() {
	e.role, e.emptyContent, e.tools = false, false, false
	e.content, e.thoughts[0], e.thoughts[1] = e.content[:0], e.thoughts[0][:0], e.thoughts[1][:0]
}

var unknownCounts = Counts{-1, -1, -1, -1}

// parse reads one object. Members that are not of the expected type count as absent,
// and of repeated members the last one counts, as with encoding/json.
func (e *event) parse(object []byte) verdict {
	e.reset()
	scan := scanner{src: object}
	// Members come in any order, and what is not known is passed over unread.
	for more := scan.open('{'); more; more = scan.next('}') {
		switch string(scan.key()) {
		case "choices":
			e.readChoices(&scan)
		case "usage":
			e.readUsage(&scan)
		case "error":
			e.fault = scan.value()
		case "type":
			e.eventType = scan.text(e.eventType)
		case "delta":
			e.delta = scan.text(e.delta)
		case "response":
			e.readResponse(&scan)
		default:
			scan.skip()
		}
	}
	return scan.end()
}

// readChoices reads the first choice and passes over the others: ours asks for one.
func (e *event) readChoices(scan *scanner) {
	e.choices = false
	e.resetChoice()
	if scan.peek() != '[' {
		scan.skip()
		return
	}
	for more := scan.open('['); more; more = scan.next(']') {
		if e.choices || scan.peek() != '{' {
			scan.skip()
		} else {
			e.readChoice(scan)
		}
		e.choices = true
	}
}

func (e *event) readChoice(scan *scanner) {
	for more := scan.open('{'); more; more = scan.next('}') {
		switch string(scan.key()) {
		case "text":
			given := scan.peek() == '"'
			e.text = scan.text(e.text)
			e.emptyText = given && len(e.text) == 0
		case "delta", "message":
			e.readDelta(scan)
		case "finish_reason":
			e.finish = scan.text(e.finish)
		case "token_ids":
			e.tokenIDs = scan.count()
		default:
			scan.skip()
		}
	}
}

// readDelta reads what is new of a choice, or all of it where nothing is streamed.
func (e *event) readDelta(scan *scanner) {
	// An empty content is told from none: it may stand for a token that decodes to nothing.
	e.resetDelta()
	if scan.peek() != '{' {
		scan.skip()
		return
	}
	for more := scan.open('{'); more; more = scan.next('}') {
		switch string(scan.key()) {
		case "role":
			e.role = scan.value() != nil
		case "content":
			given := scan.peek() == '"'
			e.content = scan.text(e.content)
			e.emptyContent = given && len(e.content) == 0
		case "tool_calls":
			e.tools = scan.count() > 0
		case "reasoning_content":
			e.thoughts[0] = scan.text(e.thoughts[0])
		case "reasoning":
			e.thoughts[1] = scan.text(e.thoughts[1])
		default:
			scan.skip()
		}
	}
}

// readResponse reads the response that the last event of Responses holds.
func (e *event) readResponse(scan *scanner) {
	e.usage, e.counts, e.finish, e.fault = false, unknownCounts, e.finish[:0], nil
	if scan.peek() != '{' {
		scan.skip()
		return
	}
	for more := scan.open('{'); more; more = scan.next('}') {
		switch string(scan.key()) {
		case "usage":
			e.readUsage(scan)
		case "status":
			e.finish = scan.text(e.finish)
		case "error":
			e.fault = scan.value()
		default:
			scan.skip()
		}
	}
}

// readUsage reads the counts under the names of all three protocols.
func (e *event) readUsage(scan *scanner) {
	e.usage, e.counts = false, unknownCounts
	if scan.peek() != '{' {
		scan.skip()
		return
	}
	e.usage = true
	for more := scan.open('{'); more; more = scan.next('}') {
		switch string(scan.key()) {
		case "prompt_tokens", "input_tokens":
			e.counts.Prompt = scan.integer()
		case "completion_tokens", "output_tokens":
			e.counts.Completion = scan.integer()
		case "prompt_tokens_details", "input_tokens_details":
			e.counts.Cached = scan.member("cached_tokens")
		case "completion_tokens_details", "output_tokens_details":
			e.counts.Reasoning = scan.member("reasoning_tokens")
		default:
			scan.skip()
		}
	}
}
