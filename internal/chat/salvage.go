package chat

// A Rule names one way of mending what a model wrote, for counters and logs.
type Rule uint8

// String returns the label of the counter: S1 to S17 of harmony.md 9, or tag and
// call for markers and calls of other families.
func (r Rule) String() string { return ruleLabels[r] }

// What the model wrote → what is made of it. No text of a message is lost, but for what
// follows a call inside its tags; several rules may apply to one message.
const (
	_ Rule = iota // nothing is mended

	// Of harmony. A header is what stands before <|message|>, its content what stands behind.

	ruleStrayEnd        // S1: an end where no message is → nothing; its ids are counted as hidden
	ruleMissingStart    // S2: <|channel|> or <|message|> without <|start|> before → a header begins
	ruleLooseText       // S3: text where <|start|> belongs → a header if its markers follow, else a message
	ruleDoubledStart    // S4: <|start|> inside a header → the header begins anew
	ruleSeveralChannels // S5: two <|channel|> in a header → the last known channel is the message's
	ruleMisspeltChannel // S6: "finally", "comment", "thinking", … → the channel that is meant, if one is
	ruleMissingChannel  // S7: a header without a channel → the answer; with a recipient, a call
	ruleTextForHeader   // S7a: text instead of header and channel → the answer, or reasoning before more
	ruleOddRecipient    // S8: several recipients, or the model itself → the first one; hidden if it is itself
	ruleMissingMessage  // S9: a header ends without <|message|> → what follows its words is the content
	ruleEndlessHeader   // S10: a header of more than maxHeader ids → the same
	ruleStartInText     // S11: <|start|> in content → the message ends, another begins
	ruleChannelInText   // S12: <|channel|> in content → the message ends, a header begins
	ruleStrayMarker     // S13: another control id where it means nothing → dropped
	ruleCallEnd         // S14: a call that ends with something other than <|call|> → a call all the same
	ruleNoCall          // S15: <|call|> behind text or reasoning → the message ends as with <|end|>
	ruleHalfHeader      // S16: the output ends inside a header → the header is dropped
	ruleTextAfterTurn   // S17: text behind the end of the answer (ignore_eos) → more of the answer

	// Of families with tags.

	ruleStrayThinkTag // tag: <think> in reasoning, or </think> outside → dropped
	ruleBrokenCall    // call: text between call tags that is no call → content; more behind a call → dropped
)

// ruleLabels are what users see: dashboards know them.
var ruleLabels = [...]string{
	ruleStrayEnd: "S1", ruleMissingStart: "S2", ruleLooseText: "S3", ruleDoubledStart: "S4", ruleSeveralChannels: "S5",
	ruleMisspeltChannel: "S6", ruleMissingChannel: "S7", ruleTextForHeader: "S7a", ruleOddRecipient: "S8",
	ruleMissingMessage: "S9", ruleEndlessHeader: "S10", ruleStartInText: "S11", ruleChannelInText: "S12",
	ruleStrayMarker: "S13", ruleCallEnd: "S14", ruleNoCall: "S15", ruleHalfHeader: "S16", ruleTextAfterTurn: "S17",
	ruleStrayThinkTag: "tag", ruleBrokenCall: "call",
}
